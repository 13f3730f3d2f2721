package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// stream writes a normalized tar stream.
type stream struct {
	out     *bufio.Writer
	tar     *tar.Writer
	content io.Writer // takes the content of the current entry
	below   string    // folder of all entries, or empty
}

func newStream(w io.Writer, below string) *stream {
	out := bufio.NewWriterSize(w, 256<<10)
	return &stream{out: out, tar: tar.NewWriter(out), below: below}
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
	name = path.Join(s.below, name)
	switch kind {
	case tar.TypeDir:
		name += "/"
	case tar.TypeLink:
		link = path.Join(s.below, link)
	}
	s.content = s.tar
	return s.tar.WriteHeader(&tar.Header{
		Typeflag: kind, Name: name, Linkname: link, Mode: int64(mode & 0o7777), ModTime: mtime, Size: size, Uid: o.uid, Gid: o.gid, Format: tar.FormatPAX,
	})
}

// sparse writes the header of a sparse file. The caller must write the data next, and then call
// pad.
func (s *stream) sparse(name string, st *unix.Stat_t, data sparse.Ranges) error {
	if err := s.tar.Flush(); err != nil {
		return err
	}
	s.content = s.out
	_, err := s.out.Write(volume.SparseHeader(path.Join(s.below, name), st, data))
	return err
}

// pad ends the data of a sparse file, of n bytes.
func (s *stream) pad(n int64) error {
	_, err := s.out.Write(make([]byte, -n&511))
	return err
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
