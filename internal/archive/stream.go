package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// stream writes a clean tar stream.
type stream struct {
	out *bufio.Writer
	tar *tar.Writer
}

func newStream(w io.Writer) *stream {
	out := bufio.NewWriterSize(w, 256<<10)
	return &stream{out, tar.NewWriter(out)}
}

// header writes the header of one entry; the content of a file has to follow.
func (s *stream) header(kind byte, name, link string, mode uint32, mtime time.Time, size int64) error {
	if kind == tar.TypeDir {
		name += "/"
	}
	return s.tar.WriteHeader(&tar.Header{
		Typeflag: kind, Name: name, Linkname: link, Mode: int64(mode & 0o7777), ModTime: mtime, Size: size, Format: tar.FormatPAX,
	})
}

// space is where content is best read to before it is written: the buffer itself.
func (s *stream) space() ([]byte, error) {
	if s.out.Available() < 4<<10 {
		if err := s.out.Flush(); err != nil {
			return nil, err
		}
	}
	free := s.out.AvailableBuffer()
	return free[:cap(free)], nil
}

// close writes the end mark.
func (s *stream) close() error {
	if err := s.tar.Close(); err != nil {
		return err
	}
	return s.out.Flush()
}

const opRead = "read source"

// at says which file of the host's an error was for, unless that is said already.
func at(err error, path string) error {
	if isNamed(err) {
		return err
	}
	return &fault.Error{Op: opRead, Subject: path, Err: err}
}

// inEntry says which entry of an archive an error was for, unless that is said already.
func inEntry(name string, err error) error {
	if isNamed(err) {
		return err
	}
	return &fault.Error{Op: "entry", Subject: ending(name), Err: err}
}

func isNamed(err error) bool {
	of := (*fault.Error)(nil)
	return errors.As(err, &of) && of.Subject != ""
}
