package view

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// Folder returns a directory of the host as a tree. The caller must close root. The content of the
// directory should not change while the tree is in use. Even if it changes, the tree shows nothing
// outside of the directory.
func Folder(root *os.Root) Tree { return host{root} }

type host struct{ root *os.Root }

// maxEntries limits the number of entries in a directory. Images have the same limit.
const maxEntries = 1 << 20

// check rejects invalid paths, and paths that lead through anything but directories. [os.Root]
// would also stay inside of the directory, but it would follow symbolic links.
func (h host) check(name string) error {
	if name == "." {
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fs.ErrInvalid
		}
	}
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		stat, err := h.root.Lstat(name[:i])
		switch {
		case err != nil:
			return err
		case stat.Mode()&fs.ModeSymlink != 0:
			return ErrSymlink
		case !stat.IsDir():
			return syscall.ENOTDIR
		}
	}
	return nil
}

func (h host) lstat(name string) (fs.FileInfo, error) {
	if err := h.check(name); err != nil {
		return nil, err
	}
	return h.root.Lstat(name)
}

func (h host) Lstat(name string) (fs.FileInfo, error) {
	stat, err := h.lstat(name)
	return stat, pathError("lstat", name, err)
}

func (h host) Open(name string) (fs.File, error) {
	f, err := h.open(name)
	return f, pathError("open", name, err)
}

func (h host) open(name string) (fs.File, error) {
	stat, err := h.lstat(name)
	switch {
	case err != nil:
		return nil, err
	case stat.IsDir():
		return &folder{info: stat, path: name, list: h.ReadDir}, nil
	case stat.Mode()&fs.ModeSymlink != 0:
		return nil, ErrSymlink
	case !stat.Mode().IsRegular():
		return empty(stat), nil
	}
	f, err := h.opened(name)
	if err != nil {
		return nil, err
	}
	return hostFile{f}, nil
}

// opened opens a regular file or directory. If another process has replaced the file with a pipe,
// opened does not block.
func (h host) opened(name string) (*os.File, error) {
	f, err := h.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err == nil && !stat.Mode().IsRegular() && !stat.IsDir() {
		err = errors.New("the file was replaced during the read")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (h host) ReadLink(name string) (string, error) {
	err := h.check(name)
	target := ""
	if err == nil {
		target, err = h.root.Readlink(name)
	}
	if errors.Is(err, unix.EINVAL) {
		err = fs.ErrInvalid
	}
	return target, pathError("readlink", name, err)
}

func (h host) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := h.readDir(name)
	return entries, pathError("readdir", name, err)
}

func (h host) readDir(name string) ([]fs.DirEntry, error) {
	stat, err := h.lstat(name)
	switch {
	case err != nil:
		return nil, err
	case stat.Mode()&fs.ModeSymlink != 0:
		return nil, ErrSymlink
	case !stat.IsDir():
		return nil, syscall.ENOTDIR
	}
	f, err := h.opened(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("the directory has more than %d entries", maxEntries)
	}
	for i, e := range entries {
		entries[i] = hostEntry{e, h, path.Join(name, e.Name())}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// hostEntry is a directory entry. Its Info method looks up the path below the root again. The Info
// method of the embedded entry would use the host path of the directory at the time of listing.
type hostEntry struct {
	fs.DirEntry
	host host
	path string
}

func (e hostEntry) Info() (fs.FileInfo, error) { return e.host.Lstat(e.path) }

// Xattrs returns the extended attributes of a regular file or directory. For other files it returns
// none, because users can't set attributes on them.
func (h host) Xattrs(name string) (map[string]string, error) {
	attributes, err := h.xattrs(name)
	return attributes, pathError("getxattr", name, err)
}

func (h host) xattrs(name string) (map[string]string, error) {
	stat, err := h.lstat(name)
	if err != nil || !stat.IsDir() && !stat.Mode().IsRegular() {
		return nil, err
	}
	f, err := h.opened(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names, value [64 << 10]byte // Linux's limits
	n, err := unix.Flistxattr(int(f.Fd()), names[:])
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("flistxattr", err)
	}
	attributes := map[string]string{}
	for text := range bytes.SplitSeq(names[:n], []byte{0}) {
		if key := string(text); xattr.Portable(key) {
			n, err := unix.Fgetxattr(int(f.Fd()), key, value[:])
			if err != nil {
				return nil, os.NewSyscallError("fgetxattr", err)
			}
			if err := addXattr(attributes, key, string(value[:n])); err != nil {
				return nil, err
			}
		}
	}
	return attributes, nil
}

// hostFile is a regular file of the host.
type hostFile struct{ *os.File }

// NextData returns the first data range that ends after offset. If there is no such range, it
// returns an empty range.
func (f hostFile) NextData(offset int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, 0, nil
	}
	if err == nil {
		end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	}
	return start, end, os.NewSyscallError("lseek", err)
}
