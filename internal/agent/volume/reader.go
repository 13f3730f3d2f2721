package volume

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// Reader lists and reads the workspace of a volume. It changes nothing, so another process can use
// the volume meanwhile. A Reader is safe for concurrent use.
type Reader struct {
	files *os.File // the workspace
}

// NewReader returns a reader for the directory files. The caller closes files after the last call.
func NewReader(files *os.File) *Reader { return &Reader{files} }

// ErrLeadsOut means that a path leads out of the workspace.
var ErrLeadsOut = errors.New("leads out of the workspace")

// CheckRelative returns an error unless name is a valid path in a volume. "" is the workspace
// itself.
func CheckRelative(name string) error {
	switch {
	case len(name) > listing.MaxPath:
		return errors.New("path must be at most 4096 bytes")
	case strings.IndexByte(name, 0) >= 0:
		return errors.New("path must not contain NUL")
	case name == "":
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New(`path must be relative to the workspace, without empty parts, "." and ".."`)
		}
	}
	return nil
}

// openBeneath opens a path in the workspace. It never leaves the workspace.
func (r *Reader) openBeneath(name string, flags int, resolve uint64) (*os.File, error) {
	fd, err := r.openFD(name, flags, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r *Reader) openFD(name string, flags int, resolve uint64) (fd int, err error) {
	return openBelow(int(r.files.Fd()), name, flags, resolve)
}

// openBelow opens a path below a folder. It never leaves the folder.
func openBelow(folder int, name string, flags int, resolve uint64) (fd int, err error) {
	at := name
	if at == "" {
		at = "."
	}
	fd, err = openat2(folder, at, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.EXDEV {
		return -1, &os.PathError{Op: "open", Path: name, Err: ErrLeadsOut}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// Open opens a file or directory for reading. It does not block on pipes.
func (r *Reader) Open(name string) (*os.File, error) {
	return r.openBeneath(name, unix.O_RDONLY|readFlags, 0)
}

// OpenRegular opens a regular file for reading.
func (r *Reader) OpenRegular(name string) (*os.File, error) {
	return regularAt(func(flags int) (*os.File, error) { return r.openBeneath(name, flags, 0) })
}

// OpenExact opens a regular file for reading. It follows no symbolic links.
func (r *Reader) OpenExact(name string) (*os.File, error) {
	return regularAt(func(flags int) (*os.File, error) { return r.openBeneath(name, flags, unix.RESOLVE_NO_SYMLINKS) })
}

// parentOf splits a path into its parent and its last component.
func parentOf(name string) (dir, last string) {
	dir, last = path.Split(name)
	return strings.TrimSuffix(dir, "/"), last
}
