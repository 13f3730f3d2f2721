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

// NoLimit is the limit for a reader that can read any number of bytes.
const NoLimit = math.MaxInt64

// Reader reads the entries of a tar stream in the V7, POSIX and GNU formats. Unlike archive/tar, it
// requires the end marker, and allows only zeros after it.
//
// If the stream is invalid, the error has kind Invalid. If the stream exceeds the limit, the error
// has kind Exhausted. Reader returns errors of the underlying stream and of the context unchanged.
type Reader struct {
	in      *countingReader
	archive *tar.Reader
	name    string // The name of the current entry.
	end     int64  // The offset of the end of the entry's content. Not valid for sparse entries.
	sparse  bool   // The entry is sparse, so end is unknown until all content is read.
}

// NewReader returns a reader for a stream of at most limit bytes. If the stream is seekable, the
// reader seeks past content that the caller does not read.
func NewReader(ctx context.Context, stream io.Reader, limit int64) *Reader {
	r := &Reader{in: &countingReader{ctx: ctx, in: stream, limit: limit}}
	r.archive = tar.NewReader(r.in)
	r.in.in = bufio.NewReaderSize(stream, 256<<10)
	if seeker, ok := stream.(io.Seeker); ok {
		if _, err := seeker.Seek(0, io.SeekCurrent); err == nil { // Seek of a pipe fails.
			r.archive, r.in.in = tar.NewReader(seekingReader{r.in, seeker}), stream
		}
	}
	return r
}

// Next advances to the next entry. At the end of the stream it returns io.EOF. It skips global PAX
// headers and volume labels. All regular files, including sparse files, have the type tar.TypeReg.
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
			return nil, r.wrap(err)
		}
		r.name, r.end = header.Name, r.in.at
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case 'V': // label of a GNU archive
			r.end += header.Size
			continue
		case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
			r.end += header.Size
			r.sparse = isSparse(header)
			header.Typeflag = tar.TypeReg
		}
		return header, nil
	}
}

func isSparse(header *tar.Header) bool {
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

// Sparse reports whether the current entry is a sparse file. The stream then does not contain the
// holes of the file.
func (r *Reader) Sparse() bool { return r.sparse }

// Read reads the content of the current entry. Holes read as zeros.
func (r *Reader) Read(p []byte) (int, error) {
	if r.sparse && r.in.ctx.Err() != nil { // holes are not read from the stream
		return 0, r.in.ctx.Err()
	}
	n, err := r.archive.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.wrap(err)
	}
	return n, err
}

// finish checks the end of the stream after the last entry, and returns io.EOF if it is valid.
func (r *Reader) finish() error {
	const block = 512
	if r.in.at < (r.end+block-1)/block*block+block {
		return r.wrap(io.ErrUnexpectedEOF)
	}
	for rest := make([]byte, 32<<10); ; {
		n, err := r.in.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return r.wrap(errors.New("data follows the end of the archive"))
		}
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		if err != nil {
			return r.wrap(err)
		}
	}
}

// wrap returns an error of the underlying stream unchanged. To any other error it adds kind Invalid
// and the name of the entry.
func (r *Reader) wrap(err error) error {
	switch {
	case r.in.err != nil:
		return r.in.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the archive is truncated")
	case errors.Is(err, tar.ErrHeader):
		err = errors.New("not a tar archive, or a damaged one")
	}
	if r.name != "" {
		err = fmt.Errorf("at or after entry %q: %w", shortened(r.name), err)
	}
	return &fault.Error{Op: "read archive", Kind: fault.Invalid, Err: err}
}

// countingReader counts the bytes of a stream. It returns an error if the count exceeds the limit
// or the context is done.
type countingReader struct {
	ctx   context.Context
	in    io.Reader
	at    int64 // bytes read or skipped
	limit int64
	err   error // error of the last read, except io.EOF
}

func (c *countingReader) Read(p []byte) (int, error) {
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

// seekingReader is a countingReader for a seekable stream.
type seekingReader struct {
	*countingReader
	seeker io.Seeker
}

// Seek supports only what archive/tar needs: skipping forward and returning the current offset.
func (s seekingReader) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 || offset > s.limit-s.at {
		return 0, errors.ErrUnsupported
	}
	if offset > 0 {
		if _, err := s.seeker.Seek(offset, io.SeekCurrent); err != nil {
			return 0, io.ErrUnexpectedEOF // The offset would exceed the maximum for a file.
		}
		s.at += offset
	}
	return s.at, nil
}
