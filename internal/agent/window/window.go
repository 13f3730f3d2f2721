// Package window moves the content of files through memory that a machine and its owner share: the link carries only how much of it is where. An emulated
// machine moves bytes through its link at the cost of two exits and an interrupt for each 4 KiB; a window is a disk to it, which takes a slot at once.
//
// A window is [Slots] slots of [SlotSize] bytes, used in turn. The sender fills a slot and says so in a record, its length in 4 bytes, little endian; the
// receiver takes it and gives it back with a credit, one byte. A record of 0 says that the content was whole. Records and credits are two byte streams of the
// caller's, which must hold a few of them without a reader. One transfer at a time: callers at both ends see to that.
//
// Neither end trusts the other: what is in the window may change while it is read, and only lengths that fit are taken.
package window

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"unsafe"
)

const (
	// SlotSize is a multiple of a page, and fits into one request to a virtio-blk disk, of 254 pages.
	SlotSize = 960 << 10
	Slots    = 4
	// Size is that of a window.
	Size = Slots * SlotSize
	// Worth is from what size on content is moved faster by a window than over the link.
	Worth = 256 << 10
)

// How the calls for content (proto/agent/v1) speak of a window: the header of an answer that grants it, and the trailers that tell how a PUT ended.
const (
	Header        = "Window"
	TrailerStatus = "Status"
	TrailerError  = "Error"
)

// page is what lengths are rounded up to, and where buffers begin: a machine reads and writes its window as a disk, without a cache.
const page = 4096

// ErrBroken says that the other end does not keep to the protocol.
var ErrBroken = errors.New("the other end of the window sends what can't be")

var buffers = sync.Pool{New: func() any {
	b := make([]byte, SlotSize+page)
	b = b[page-int(uintptr(unsafe.Pointer(&b[0]))%page):][:SlotSize]
	return &b
}}

func rounded(n int) int { return (n + page - 1) &^ (page - 1) }

// Send sends what from gives, to its end, and returns when all of it has been announced. An error of from leaves the other end waiting: the caller has to
// end the streams.
func Send(window io.WriterAt, from io.Reader, records io.Writer, credits io.Reader) (sent int64, err error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := *buffer
	credit := make([]byte, 1)
	for i := 0; ; i++ {
		n, err := fill(b, from)
		if err != nil && err != io.EOF {
			return sent, err
		}
		if n > 0 {
			if i >= Slots {
				if _, err := io.ReadFull(credits, credit); err != nil {
					return sent, err
				}
			}
			if _, err := window.WriteAt(b[:rounded(n)], int64(i%Slots)*SlotSize); err != nil {
				return sent, err
			}
			if err := announce(records, n); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		if err != nil {
			return sent, announce(records, 0)
		}
	}
}

// fill reads until b is full. Unlike [io.ReadFull] it tells an end from a reader's own [io.ErrUnexpectedEOF].
func fill(b []byte, from io.Reader) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = from.Read(b[n:])
		n += k
	}
	return n, err
}

func announce(records io.Writer, n int) error {
	_, err := records.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	return err
}

// Receive writes what the other end sends to a writer, at most limit bytes of it. The writer's error is given as it is; [io.ErrUnexpectedEOF]: the records
// ended before the content was whole.
func Receive(window io.ReaderAt, to io.Writer, limit int64, records io.Reader, credits io.Writer) (received int64, err error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := *buffer
	record := make([]byte, 4)
	for i := 0; ; i++ {
		if _, err := io.ReadFull(records, record); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return received, err
		}
		n := binary.LittleEndian.Uint32(record)
		if n == 0 {
			return received, nil
		}
		if n > SlotSize || int64(n) > limit-received {
			return received, ErrBroken
		}
		if _, err := window.ReadAt(b[:rounded(int(n))], int64(i%Slots)*SlotSize); err != nil {
			return received, err
		}
		credits.Write([]byte{1}) // a sender that takes no more has sent all, or ends the records too
		if _, err := to.Write(b[:n]); err != nil {
			return received, err
		}
		received += int64(n)
	}
}
