package view

import "io"

// ahead reads more than it is asked for, and keeps that: headers of an archive are many small parts. It is for one goroutine.
type ahead struct {
	archive io.ReaderAt
	from    int64
	kept    []byte
	buffer  [16 << 10]byte
}

func (a *ahead) ReadAt(b []byte, offset int64) (int, error) {
	if len(b) > len(a.buffer) {
		return a.archive.ReadAt(b, offset)
	}
	if offset < a.from || offset+int64(len(b)) > a.from+int64(len(a.kept)) {
		n, err := a.archive.ReadAt(a.buffer[:], offset)
		a.from, a.kept = offset, a.buffer[:n]
		if n < len(b) {
			return copy(b, a.kept), err
		}
	}
	return copy(b, a.kept[offset-a.from:]), nil
}
