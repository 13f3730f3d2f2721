// Package lines reads lines with a maximum length from untrusted input.
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

// NewReader returns a Reader for lines. most is the maximum length of a line in bytes, including
// the line ending.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{bufio.NewReader(in), most}
}

// Next returns the next line without surrounding white space. If the line is too long, Next drops
// it and returns fits as false. If an error such as io.EOF occurs, line contains the bytes before
// the error, which can be an incomplete line.
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
