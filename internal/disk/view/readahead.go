package view

import "io"

// readAhead reads ahead, because an archive contains many small headers. It is not safe for
// concurrent use.
type readAhead struct {
	archive io.ReaderAt
	from    int64
	data    []byte
	buffer  [16 << 10]byte
}

func (a *readAhead) ReadAt(b []byte, offset int64) (int, error) {
	if len(b) > len(a.buffer) {
		return a.archive.ReadAt(b, offset)
	}
	if offset < a.from || offset+int64(len(b)) > a.from+int64(len(a.data)) {
		n, err := a.archive.ReadAt(a.buffer[:], offset)
		a.from, a.data = offset, a.buffer[:n]
		if n < len(b) {
			return copy(b, a.data), err
		}
	}
	return copy(b, a.data[offset-a.from:]), nil
}
