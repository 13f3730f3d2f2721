package ext4image

import (
	"bytes"
	"io"
	"os"
)

// sparseFile leaves out blocks of zeros where the file has not been written yet, so that they take no space on the host.
type sparseFile struct {
	*os.File
	pos, end int64
}

var zeroBlock [blockSize]byte

func (s *sparseFile) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n := min(blockSize-int(s.pos%blockSize), len(p)-written)
		part := p[written : written+n]
		if s.pos < s.end || !bytes.Equal(part, zeroBlock[:n]) {
			// A run of blocks that are all to be written goes out in one call.
			for written+n < len(p) {
				next := min(blockSize, len(p)-written-n)
				if s.pos+int64(n) >= s.end && bytes.Equal(p[written+n:written+n+next], zeroBlock[:next]) {
					break
				}
				n += next
			}
			if m, err := s.WriteAt(p[written:written+n], s.pos); err != nil {
				return written + m, err
			}
		}
		s.pos += int64(n)
		s.end = max(s.end, s.pos)
		written += n
	}
	return written, nil
}

func (s *sparseFile) Read(p []byte) (int, error) {
	if s.pos >= s.end {
		return 0, io.EOF
	}
	n, err := s.ReadAt(p[:min(int64(len(p)), s.end-s.pos)], s.pos)
	s.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (s *sparseFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.end
	}
	if offset < 0 {
		return 0, os.ErrInvalid
	}
	s.pos = offset
	return offset, nil
}

// finish gives the file the length of all that was written, trailing zeros too.
func (s *sparseFile) finish() error { return s.Truncate(s.end) }
