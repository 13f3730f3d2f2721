package listing

import (
	"encoding/binary"
	"io"
)

// bufferSize is how much of a list is written at once, at least.
const bufferSize = 64 << 10

// Writer writes a list. It allocates nothing for an entry.
type Writer struct {
	to     io.Writer
	buffer []byte
	path   []byte // of the entry before
	before Attributes
	count  uint64
}

// NewWriter makes a writer of one list.
func NewWriter(to io.Writer) *Writer {
	return &Writer{to: to, buffer: make([]byte, 0, bufferSize+4*MaxPath)}
}

// Add adds an entry, in the order of a list. target is that of a symbolic link.
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
	b = binary.AppendVarint(b, a.ModTime-w.before.ModTime)
	b = binary.AppendVarint(b, a.ChangeTime-a.ModTime)
	b = binary.AppendVarint(b, int64(a.Inode-w.before.Inode))
	b = binary.AppendUvarint(b, uint64(a.UID))
	b = binary.AppendUvarint(b, uint64(a.GID))
	b = binary.AppendUvarint(b, uint64(a.Links))
	if a.Kind == Link {
		b = appendBytes(b, target)
	}
	w.buffer = b
	w.path = append(w.path[:shared], path[shared:]...)
	w.before = *a
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

// Close ends the list: without it whoever reads it takes it for one that was cut.
func (w *Writer) Close() error {
	w.buffer = binary.AppendUvarint(append(w.buffer, 0), w.count)
	return w.flush()
}
