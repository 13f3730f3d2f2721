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

// Writer sends what is written to it. It must be closed for the other end to know that it was whole; where it is not, the caller has to end the streams.
type Writer struct {
	window  io.WriterAt
	records io.Writer
	credits io.Reader
	buffer  *[]byte
	n       int // in the buffer
	slot    int // the next, counted on and on
	sent    int64
}

// NewWriter makes a writer for one transfer.
func NewWriter(window io.WriterAt, records io.Writer, credits io.Reader) *Writer {
	return &Writer{window: window, records: records, credits: credits, buffer: buffers.Get().(*[]byte)}
}

// Write takes more of the content. It is sent by the slot.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := copy((*w.buffer)[w.n:], rest)
		w.n, rest = w.n+n, rest[n:]
		if w.n == SlotSize {
			if err := w.flush(); err != nil {
				return len(p) - len(rest), err
			}
		}
	}
	return len(p), nil
}

// flush sends what is in the buffer.
func (w *Writer) flush() error {
	if w.n == 0 {
		return nil
	}
	if w.slot >= Slots {
		var credit [1]byte
		if _, err := io.ReadFull(w.credits, credit[:]); err != nil {
			return err
		}
	}
	if _, err := w.window.WriteAt((*w.buffer)[:rounded(w.n)], int64(w.slot%Slots)*SlotSize); err != nil {
		return err
	}
	if err := announce(w.records, w.n); err != nil {
		return err
	}
	w.sent += int64(w.n)
	w.n, w.slot = 0, w.slot+1
	return nil
}

// Close sends the rest, and that the content was whole.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return announce(w.records, 0)
}

// Free gives back what the writer used. Nothing of it may be called any more.
func (w *Writer) Free() { buffers.Put(w.buffer) }

// Send sends what from gives, to its end, and returns when all of it has been announced. An error of from leaves the other end waiting: the caller has to
// end the streams.
func Send(window io.WriterAt, from io.Reader, records io.Writer, credits io.Reader) (sent int64, err error) {
	w := NewWriter(window, records, credits)
	defer w.Free()
	for {
		n, end := fill(*w.buffer, from)
		if end != nil && end != io.EOF {
			return w.sent, end
		}
		w.n = n
		if end == io.EOF {
			err := w.Close()
			return w.sent, err
		}
		if err := w.flush(); err != nil {
			return w.sent, err
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

// Reader gives what the other end sends. Its own errors are [ErrBroken], and [io.ErrUnexpectedEOF] where the records ended before the content was whole.
type Reader struct {
	window  io.ReaderAt
	records io.Reader
	credits io.Writer
	buffer  *[]byte
	rest    []byte // of the buffer, not yet given
	left    int64  // that the other end may send
	slot    int    // the next, counted on and on
	err     error
}

// NewReader makes a reader for one transfer of at most limit bytes.
func NewReader(window io.ReaderAt, limit int64, records io.Reader, credits io.Writer) *Reader {
	return &Reader{window: window, records: records, credits: credits, left: limit, buffer: buffers.Get().(*[]byte)}
}

// Read gives more of the content; [io.EOF] where it was whole.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next takes the next slot.
func (r *Reader) next() error {
	var record [4]byte
	if _, err := io.ReadFull(r.records, record[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	n := binary.LittleEndian.Uint32(record[:])
	if n == 0 {
		return io.EOF
	}
	if n > SlotSize || int64(n) > r.left {
		return ErrBroken
	}
	if _, err := r.window.ReadAt((*r.buffer)[:rounded(int(n))], int64(r.slot%Slots)*SlotSize); err != nil {
		return err
	}
	r.credits.Write([]byte{1}) // a sender that takes no more has sent all, or ends the records too
	r.rest, r.left, r.slot = (*r.buffer)[:n], r.left-int64(n), r.slot+1
	return nil
}

// Free gives back what the reader used. Nothing of it may be called any more.
func (r *Reader) Free() { buffers.Put(r.buffer) }

// WriteTo writes the content to a writer, whose error is given as it is.
func (r *Reader) WriteTo(to io.Writer) (written int64, err error) {
	for {
		if len(r.rest) == 0 && r.err == nil {
			r.err = r.next()
		}
		if len(r.rest) == 0 {
			if r.err == io.EOF {
				return written, nil
			}
			return written, r.err
		}
		n, err := to.Write(r.rest)
		written += int64(n)
		if r.rest = r.rest[n:]; err != nil {
			return written, err
		}
	}
}

// Receive writes what the other end sends to a writer, at most limit bytes of it. The writer's error is given as it is; [io.ErrUnexpectedEOF]: the records
// ended before the content was whole.
func Receive(window io.ReaderAt, to io.Writer, limit int64, records io.Reader, credits io.Writer) (received int64, err error) {
	r := NewReader(window, limit, records, credits)
	defer r.Free()
	return r.WriteTo(to)
}
