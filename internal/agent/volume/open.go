package volume

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// OpenIn opens an absolute path below root. Links and ".." are followed as the processes would see them, and never lead out.
func OpenIn(root int, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// CheckPath refuses a text that is no absolute path.
func CheckPath(name string) error {
	if name == "" || name[0] != '/' || len(name) > listing.MaxPath || strings.IndexByte(name, 0) >= 0 {
		return errors.New("path must be absolute and at most 4096 bytes")
	}
	return nil
}

// ErrNotRegular is the error for a path where a regular file is needed.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file below a root folder for reading. It never waits for the other end of a pipe.
func OpenRegular(root int, name string) (*os.File, error) {
	return regularAt(func(flags int) (*os.File, error) { return OpenIn(root, name, flags, 0) })
}

// regularAt does so by a function that opens the path. Kernels differ in why a pipe, socket or device
// can't be opened: if one can't be, its kind decides.
func regularAt(open func(flags int) (*os.File, error)) (*os.File, error) {
	f, err := open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	if err == nil {
		return onlyRegular(f)
	}
	if there, failed := open(unix.O_PATH); failed == nil {
		defer there.Close()
		if kind := isRegular(there); kind != nil {
			return nil, kind
		}
	}
	return nil, err
}

// onlyRegular closes and refuses what is no regular file.
func onlyRegular(f *os.File) (*os.File, error) {
	if err := isRegular(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isRegular(f *os.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: ErrNotRegular}
	}
	return err
}
