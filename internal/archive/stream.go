package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// stream writes a normalized tar stream.
type stream struct {
	out *bufio.Writer
	tar *tar.Writer
}

func newStream(w io.Writer) *stream {
	out := bufio.NewWriterSize(w, 256<<10)
	return &stream{out, tar.NewWriter(out)}
}

// header writes the header of an entry that belongs to root. For a file, the caller must write the
// content next.
func (s *stream) header(kind byte, name, link string, mode uint32, mtime time.Time, size int64) error {
	return s.owned(owner{}, kind, name, link, mode, mtime, size)
}

// owner is a user and a group. The zero value is root.
type owner struct{ uid, gid int }

// owned is header with an owner.
func (s *stream) owned(o owner, kind byte, name, link string, mode uint32, mtime time.Time, size int64) error {
	if kind == tar.TypeDir {
		name += "/"
	}
	return s.tar.WriteHeader(&tar.Header{
		Typeflag: kind, Name: name, Linkname: link, Mode: int64(mode & 0o7777), ModTime: mtime, Size: size, Uid: o.uid, Gid: o.gid, Format: tar.FormatPAX,
	})
}

// space returns a buffer for content. The buffer is the free part of the output buffer, so that
// writing the content needs no copy.
func (s *stream) space() ([]byte, error) {
	if s.out.Available() < 4<<10 {
		if err := s.out.Flush(); err != nil {
			return nil, err
		}
	}
	free := s.out.AvailableBuffer()
	return free[:cap(free)], nil
}

// close writes the end marker.
func (s *stream) close() error {
	if err := s.tar.Close(); err != nil {
		return err
	}
	return s.out.Flush()
}

const opRead = "read source"

// at adds the path of a host file to an error that does not contain a name yet.
func at(err error, path string) error {
	if isNamed(err) {
		return err
	}
	return &fault.Error{Op: opRead, Subject: path, Err: err}
}

// inEntry adds the name of an archive entry to an error that does not contain a name yet.
func inEntry(name string, err error) error {
	if isNamed(err) {
		return err
	}
	return &fault.Error{Op: "entry", Subject: shortened(name), Err: err}
}

func isNamed(err error) bool {
	of := (*fault.Error)(nil)
	return errors.As(err, &of) && of.Subject != ""
}
