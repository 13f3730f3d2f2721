package listing

import (
	"encoding/binary"
	"io"
)

// bufferSize is the minimum size of each write except the last one, in bytes.
const bufferSize = 64 << 10

// Writer writes a list. It allocates no memory per entry.
type Writer struct {
	to     io.Writer
	buffer []byte
	path   []byte // path of the previous entry
	last   Attributes
	count  uint64
}

// NewWriter returns a writer for one list.
func NewWriter(to io.Writer) *Writer {
	return &Writer{to: to, buffer: make([]byte, 0, bufferSize+4*MaxPath)}
}

// Add adds an entry. Entries must be added in list order. target is the target of a symbolic link.
func (w *Writer) Add(path []byte, a *Attributes, target []byte) error {
	shared := 0
	for shared < len(path) && shared < len(w.path) && path[shared] == w.path[shared] {
		shared++
	}
	b := append(w.buffer, byte(a.Kind))
	b = binary.AppendUvarint(b, uint64(shared))
	b = appendBytes(b, path[shared:])
	b = binary.AppendUvarint(b, uint64(a.Mode))
	b = binary.AppendUvarint(b, uint64(a.Size))
	b = binary.AppendVarint(b, a.ModTime-w.last.ModTime)
	b = binary.AppendVarint(b, a.ChangeTime-a.ModTime)
	b = binary.AppendVarint(b, int64(a.Inode-w.last.Inode))
	b = binary.AppendUvarint(b, uint64(a.UID))
	b = binary.AppendUvarint(b, uint64(a.GID))
	b = binary.AppendUvarint(b, uint64(a.Links))
	if a.Kind == Link {
		b = appendBytes(b, target)
	}
	w.buffer = b
	w.path = append(w.path[:shared], path[shared:]...)
	w.last = *a
	w.count++
	if len(b) < bufferSize {
		return nil
	}
	return w.flush()
}

func appendBytes(b, what []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(what))), what...)
}

func (w *Writer) flush() error {
	_, err := w.to.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}

// Close writes the end of the list. If Close is not called, readers treat the list as truncated.
func (w *Writer) Close() error {
	w.buffer = binary.AppendUvarint(append(w.buffer, 0), w.count)
	return w.flush()
}
