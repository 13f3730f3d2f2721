// Package lines reads lines, of bounded length, of who may send anything.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Reader reads lines.
type Reader struct {
	in   *bufio.Reader
	most int
}

// NewReader reads lines that have most bytes at most, with their ends.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{bufio.NewReader(in), most}
}

// Next reads a line without its end and the blanks around it. Of one that is too long nothing is kept, and fits is false. With an error, io.EOF at the end of the
// input, comes what was read before it: it may be a line.
func (r *Reader) Next() (line []byte, fits bool, err error) {
	fits = true
	for {
		part, err := r.in.ReadSlice('\n')
		if fits = fits && len(line)+len(part) <= r.most; fits {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), fits, err
		}
	}
}
