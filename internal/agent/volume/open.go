package volume

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// OpenIn opens an absolute path below root. It resolves links and ".." as for processes inside
// root, and never leaves root.
func OpenIn(root int, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := openat2(root, name, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// maxRetries is how often openat2 calls the kernel. The kernel returns EAGAIN if a concurrent
// rename could affect a ".." in the path.
const maxRetries = 100

func openat2(folder int, name string, how *unix.OpenHow) (fd int, err error) {
	for range maxRetries {
		if fd, err = unix.Openat2(folder, name, how); err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return fd, err
}

// CheckPath returns an error unless name is a valid absolute path of at most [listing.MaxPath]
// bytes.
func CheckPath(name string) error {
	if name == "" || name[0] != '/' || len(name) > listing.MaxPath || strings.IndexByte(name, 0) >= 0 {
		return errors.New("path must be absolute and at most 4096 bytes")
	}
	return nil
}

// ErrNotRegular means that a path is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file below root for reading. It does not block on pipes.
func OpenRegular(root int, name string) (*os.File, error) {
	return regularAt(func(flags int) (*os.File, error) { return OpenIn(root, name, flags, 0) })
}

// regularAt opens a regular file with the function open. For pipes, sockets and devices, kernels
// return different errors. So after an error, regularAt checks the file type.
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

// onlyRegular returns f if it is a regular file. Otherwise it closes f and returns an error.
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
