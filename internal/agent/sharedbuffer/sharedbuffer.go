// Package sharedbuffer moves file content through memory that a machine shares with its supervisor.
// The link then carries only lengths. Over the link, an emulated machine needs two exits and an
// interrupt for each 4 KiB. To the machine, the shared buffer is a virtio disk, and one request
// transfers a whole slot.
//
// The buffer consists of [Slots] slots of [SlotSize] bytes, used in rotation. The sender fills a
// slot and sends a record with the length of the content: 4 bytes, little endian. The receiver
// reads the slot and sends a credit of one byte, which frees the slot. A record of 0 means that the
// content is complete. The caller provides the byte streams for records and credits. A stream must
// be able to buffer a few bytes that are not read yet. Callers must run only one transfer at a
// time.
//
// Neither side trusts the other. The content can change while it is read, and invalid lengths are
// rejected.
package sharedbuffer

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"unsafe"
)

const (
	// SlotSize is the size of a slot in bytes. It is a multiple of the page size, and fits into one
	// request to a virtio-blk disk, which has up to 254 pages.
	SlotSize = 960 << 10
	Slots    = 4
	// Size is the size of a shared buffer in bytes.
	Size = Slots * SlotSize
	// Worth is the minimum content size, in bytes, for which the shared buffer is faster than the
	// link.
	Worth = 256 << 10
)

// Header is the HTTP header of a response that grants the buffer; see proto/agent/v1.
const Header = "Window"

// page is the alignment of lengths and buffers, in bytes. It is needed because machines access the
// buffer as a disk with direct I/O.
const page = 4096

// ErrBroken means that the other side has violated the protocol.
var ErrBroken = errors.New("the other side violates the shared buffer protocol")

var buffers = sync.Pool{New: func() any {
	b := make([]byte, SlotSize+page)
	b = b[page-int(uintptr(unsafe.Pointer(&b[0]))%page):][:SlotSize]
	return &b
}}

func rounded(n int) int { return (n + page - 1) &^ (page - 1) }

// Writer sends content. Close tells the other side that the content is complete. If the caller does
// not call Close, it must end the streams of records and credits.
type Writer struct {
	shared  io.WriterAt
	records io.Writer
	credits io.Reader
	buffer  *[]byte
	n       int // number of bytes in buffer
	slot    int // number of slots sent so far, never reset
	sent    int64
}

// NewWriter returns a writer for one transfer.
func NewWriter(shared io.WriterAt, records io.Writer, credits io.Reader) *Writer {
	return &Writer{shared: shared, records: records, credits: credits, buffer: buffers.Get().(*[]byte)}
}

// Write appends content, and sends each slot that becomes full.
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

// flush sends the buffered content.
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
	if _, err := w.shared.WriteAt((*w.buffer)[:rounded(w.n)], int64(w.slot%Slots)*SlotSize); err != nil {
		return err
	}
	if err := announce(w.records, w.n); err != nil {
		return err
	}
	w.sent += int64(w.n)
	w.n, w.slot = 0, w.slot+1
	return nil
}

// Close sends the remaining content and marks the content as complete.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return announce(w.records, 0)
}

// Free releases the memory of the writer. The writer can't be used afterwards.
func (w *Writer) Free() { buffers.Put(w.buffer) }

// Send sends all content of a reader. If reading fails, the other side still waits for content, so
// the caller must end the streams of records and credits.
func Send(shared io.WriterAt, from io.Reader, records io.Writer, credits io.Reader) (sent int64, err error) {
	w := NewWriter(shared, records, credits)
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

// fill reads until b is full. Unlike [io.ReadFull], it distinguishes the end of the content from an
// [io.ErrUnexpectedEOF] that the reader returns.
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

// Reader receives content. It returns [ErrBroken] if the sender violates the protocol. It returns
// [io.ErrUnexpectedEOF] if the records end before the content is complete.
type Reader struct {
	shared  io.ReaderAt
	records io.Reader
	credits io.Writer
	buffer  *[]byte
	rest    []byte // unread part of buffer
	left    int64  // maximum number of bytes that the sender can still send
	slot    int    // number of slots received so far, never reset
	err     error
}

// NewReader returns a reader for one transfer of at most limit bytes.
func NewReader(shared io.ReaderAt, limit int64, records io.Reader, credits io.Writer) *Reader {
	return &Reader{shared: shared, records: records, credits: credits, left: limit, buffer: buffers.Get().(*[]byte)}
}

// Read reads content. At the end of complete content it returns [io.EOF].
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

// next reads the next slot.
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
	if _, err := r.shared.ReadAt((*r.buffer)[:rounded(int(n))], int64(r.slot%Slots)*SlotSize); err != nil {
		return err
	}
	r.credits.Write([]byte{1}) // if the sender no longer exists, reading the next record fails
	r.rest, r.left, r.slot = (*r.buffer)[:n], r.left-int64(n), r.slot+1
	return nil
}

// Free releases the memory of the reader. The reader can't be used afterwards.
func (r *Reader) Free() { buffers.Put(r.buffer) }

// WriteTo writes all content to a writer. It returns errors from the writer unchanged.
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

// Receive receives content and writes it to a writer, at most limit bytes. It returns errors from
// the writer unchanged. It returns [io.ErrUnexpectedEOF] if the records end before the content is
// complete.
func Receive(shared io.ReaderAt, to io.Writer, limit int64, records io.Reader, credits io.Writer) (received int64, err error) {
	r := NewReader(shared, limit, records, credits)
	defer r.Free()
	return r.WriteTo(to)
}
