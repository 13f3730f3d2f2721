package tree

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// NoLimit is the limit of a reader that has none.
const NoLimit = math.MaxInt64

// Reader reads the entries of a tar stream, of V7's, POSIX's and GNU's formats. Other than archive/tar it takes a stream for whole only where it ends
// with the mark that is due there, with nothing but zeros after it. What is wrong with the stream is an error of kind Invalid, more than its limit one
// of kind Exhausted; errors of what it is read from come back as they are, and so does the end of the context.
type Reader struct {
	in      *counted
	archive *tar.Reader
	name    string // of the entry that was read last
	end     int64  // where the content of that entry ends, if it is not sparse
	sparse  bool   // how long that is can't be told before it is read
}

// NewReader reads a stream of at most so many bytes. Where that can seek, content that isn't read is skipped.
func NewReader(ctx context.Context, stream io.Reader, limit int64) *Reader {
	r := &Reader{in: &counted{ctx: ctx, in: stream, limit: limit}}
	r.archive = tar.NewReader(r.in)
	r.in.in = bufio.NewReaderSize(stream, 256<<10)
	if seeker, ok := stream.(io.Seeker); ok {
		if _, err := seeker.Seek(0, io.SeekCurrent); err == nil { // a pipe has the method too
			r.archive, r.in.in = tar.NewReader(skipping{r.in, seeker}), stream
		}
	}
	return r
}

// Next goes on to the next entry. At the end of the stream it gives io.EOF. Global PAX headers and volume labels are no entries. Whatever form a regular
// file is kept in, its type is tar.TypeReg.
func (r *Reader) Next() (*tar.Header, error) {
	for {
		if r.sparse {
			if _, err := io.Copy(io.Discard, r); err != nil {
				return nil, err
			}
			r.end, r.sparse = r.in.at, false
		}
		header, err := r.archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, r.finish()
		}
		if err != nil {
			return nil, r.blame(err)
		}
		r.name, r.end = header.Name, r.in.at
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case 'V': // the name of a GNU archive
			r.end += header.Size
			continue
		case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
			r.end += header.Size
			r.sparse = sparse(header)
			header.Typeflag = tar.TypeReg
		}
		return header, nil
	}
}

func sparse(header *tar.Header) bool {
	if header.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Read reads the content of the entry, holes as zeros.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.archive.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.blame(err)
	}
	return n, err
}

// finish looks at what follows the last entry, and gives io.EOF.
func (r *Reader) finish() error {
	const block = 512
	if r.in.at < (r.end+block-1)/block*block+block {
		return r.blame(io.ErrUnexpectedEOF)
	}
	for rest := make([]byte, 32<<10); ; {
		n, err := r.in.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return r.blame(errors.New("something follows its end"))
		}
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		if err != nil {
			return r.blame(err)
		}
	}
}

// blame tells errors of what the stream is read from, which are passed on, from those of the stream.
func (r *Reader) blame(err error) error {
	switch {
	case r.in.err != nil:
		return r.in.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it is cut off")
	case errors.Is(err, tar.ErrHeader):
		err = errors.New("this is no tar archive, or a damaged one")
	}
	if r.name != "" {
		err = fmt.Errorf("at or after entry %q: %w", shortened(r.name), err)
	}
	return &fault.Error{Op: "read archive", Kind: fault.Invalid, Err: err}
}

// counted is the stream.
type counted struct {
	ctx   context.Context
	in    io.Reader
	at    int64 // how much was read or skipped
	limit int64
	err   error // that it ended with, but io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err = c.ctx.Err(); c.err != nil {
		return 0, c.err
	}
	n, err := c.in.Read(p)
	if c.at += int64(n); c.at > c.limit {
		err = fault.New(fault.Exhausted, "read archive", "", "it unpacks to more than %d bytes", c.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// skipping is a stream that can seek.
type skipping struct {
	*counted
	seeker io.Seeker
}

// Seek does what archive/tar needs of it: to go forward from where it is, and tell where that is.
func (s skipping) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 || offset > s.limit-s.at {
		return 0, errors.ErrUnsupported
	}
	if offset > 0 {
		if _, err := s.seeker.Seek(offset, io.SeekCurrent); err != nil {
			return 0, io.ErrUnexpectedEOF // so far no file can go
		}
		s.at += offset
	}
	return s.at, nil
}
