package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// openQuietly are the flags of everything that is opened to be read: nothing waits for a pipe's other end.
const openQuietly = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// Lister lists a folder. Twenty thousand files are listed to find the few that have changed: so an entry costs one system call and no allocation, and its name
// is never copied out of where the kernel's answer was put.
type Lister struct {
	top   *os.File
	last  string // the entry of top that is listed; empty: top itself
	depth int    // of the folders that are listed: 1 is the top alone, 0 none
	to    *listing.Writer

	path   []byte // of the folder that is being listed
	names  []byte // of that folder and those above it, each ended by a zero byte
	order  []span // of names, in their order, folder after folder
	dirent []byte // the kernel's answer
	target [listing.MaxPath + 1]byte
	st     unix.Statx_t
}

// span is a name in Lister.names, without its zero byte.
type span struct{ from, to int32 }

// List prepares a list of what is at a path and in it, or of all below it if recursive is set.
func (v *Volume) List(name string, recursive bool) (*Lister, error) {
	top, err := v.openBeneath(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	depth := 1
	if recursive {
		depth = listing.MaxPath // a path has no more parts
	}
	return listerOf(top, depth), nil
}

// Stat prepares a list of the entry at a path alone. No link is followed, neither on the way nor at the end.
func (v *Volume) Stat(name string) (*Lister, error) {
	above, last := parentOf(name)
	dir, err := v.openBeneath(above, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	if _, err := there(int(dir.Fd()), last); last != "" && err != nil {
		dir.Close()
		if err == errNothing {
			err = unix.ENOENT
		}
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	l := listerOf(dir, 0)
	l.last = last
	return l, nil
}

// ListIn prepares a list of a path below a root folder, to a depth of folders. With depth 0 it lists the entry itself and follows no link; otherwise
// a link at the end of the path is followed.
func ListIn(root int, name string, depth int) (*Lister, error) {
	flags := unix.O_PATH
	if depth == 0 {
		flags |= unix.O_NOFOLLOW
	} else { // without slashes at its end, so that a path that is no folder gets the same error as before
		name = "/" + strings.Trim(name, "/")
	}
	top, err := OpenIn(root, name, flags, 0)
	if err != nil {
		return nil, err
	}
	return listerOf(top, min(depth, listing.MaxPath)), nil
}

func listerOf(top *os.File, depth int) *Lister {
	return &Lister{top: top, depth: depth, dirent: make([]byte, 64<<10)}
}

// Close closes the folder.
func (l *Lister) Close() { l.top.Close() }

// Write writes the list, in the form of internal/agent/listing.
func (l *Lister) Write(to io.Writer) error {
	l.to = listing.NewWriter(to)
	fd, name := int(l.top.Fd()), append([]byte(l.last), 0)
	if err := l.stat(fd, &name[0], unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return l.failed("stat", err)
	}
	a := l.attributes()
	var target []byte
	if a.Kind == listing.Link {
		n, err := l.readlink(fd, &name[0])
		if err != nil {
			return l.failed("readlink", err)
		}
		target = l.target[:n]
	}
	if err := l.to.Add(nil, &a, target); err != nil {
		return err
	}
	if a.Kind == listing.Folder && l.depth > 0 {
		dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: l.top.Name(), Err: err}
		}
		err = l.folder(dir)
		unix.Close(dir)
		if err != nil {
			return err
		}
	}
	return l.to.Close()
}

// folder lists what is in the folder whose path is l.path.
func (l *Lister) folder(dir int) error {
	first, last := len(l.order), len(l.names)
	if err := l.read(dir); err != nil {
		return l.failed("read", err)
	}
	for i := first; i < len(l.order); i++ {
		if err := l.entry(dir, l.order[i]); err != nil {
			return err
		}
	}
	l.order, l.names = l.order[:first], l.names[:last]
	return nil
}

// failed says what could not be done with l.path.
func (l *Lister) failed(op string, err error) error {
	return &os.PathError{Op: op, Path: strings.Trim(l.top.Name()+"/"+l.last+string(l.path), "/"), Err: err}
}

// read adds the names of a folder, in the order of their bytes.
func (l *Lister) read(dir int) error {
	first := len(l.order)
	for {
		n, err := unix.Getdents(dir, l.dirent)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT: // it has been removed
			n = 0
		case err != nil:
			return err
		}
		if n <= 0 {
			break
		}
		for b := l.dirent[:n]; len(b) > 0; {
			// struct linux_dirent64: inode and offset of 8 bytes each, length of 2, type, name
			length := int(binary.NativeEndian.Uint16(b[16:]))
			name := b[19:length]
			name = name[:bytes.IndexByte(name, 0)+1]
			b = b[length:]
			if string(name) == ".\x00" || string(name) == "..\x00" {
				continue
			}
			from := len(l.names)
			l.names = append(l.names, name...)
			l.order = append(l.order, span{int32(from), int32(len(l.names) - 1)})
		}
	}
	slices.SortFunc(l.order[first:], func(a, b span) int { return bytes.Compare(l.names[a.from:a.to], l.names[b.from:b.to]) })
	return nil
}

// entry adds one thing in a folder, and all below it where that is asked for. What has vanished is left out.
func (l *Lister) entry(dir int, at span) error {
	length := len(l.path)
	defer func() { l.path = l.path[:length] }()
	if length > 0 {
		l.path = append(l.path, '/')
	}
	l.path = append(l.path, l.names[at.from:at.to]...)
	if len(l.path) > listing.MaxPath {
		return l.failed("list", unix.ENAMETOOLONG)
	}
	name := &l.names[at.from]
	if err := l.stat(dir, name, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
		return nil
	} else if err != nil {
		return l.failed("stat", err)
	}
	a := l.attributes()
	var target []byte
	if a.Kind == listing.Link {
		n, err := l.readlink(dir, name)
		if err == unix.ENOENT || err == unix.EINVAL { // gone, or no link any more
			return nil
		}
		if err != nil {
			return l.failed("readlink", err)
		}
		target = l.target[:n]
	}
	if err := l.to.Add(l.path, &a, target); err != nil {
		return err
	}
	if a.Kind != listing.Folder || l.depth <= 1 {
		return nil
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|openQuietly)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return l.failed("open", err)
	}
	l.depth--
	err = l.folder(fd)
	l.depth++
	unix.Close(fd)
	return err
}

// attributes are those of what was looked at last.
func (l *Lister) attributes() listing.Attributes {
	return listing.Attributes{
		Kind: kindOf(uint32(l.st.Mode)), Mode: uint32(l.st.Mode) & 0o7777, Size: int64(l.st.Size), ModTime: nanos(l.st.Mtime), ChangeTime: nanos(l.st.Ctime),
		Inode: l.st.Ino, UID: l.st.Uid, GID: l.st.Gid, Links: l.st.Nlink,
	}
}

// nanos gives a time. gVisor has negative nanoseconds before 1970.
func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(int32(t.Nsec)) }

func kindOf(mode uint32) listing.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return listing.File
	case unix.S_IFDIR:
		return listing.Folder
	case unix.S_IFLNK:
		return listing.Link
	default:
		return listing.Other
	}
}

// The system calls that take a name, without a copy of it.

// stat looks at what a name is, into l.st.
func (l *Lister) stat(dir int, name *byte, flags int) error {
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(flags), unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&l.st)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// readlink reads the target of a link into l.target.
func (l *Lister) readlink(dir int, name *byte) (int, error) {
	n, err := readlinkat(dir, name, l.target[:])
	if err == nil && n > listing.MaxPath {
		err = unix.ENAMETOOLONG
	}
	return n, err
}

func readlinkat(dir int, name *byte, to []byte) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&to[0])), uintptr(len(to)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func openat(dir int, name *byte, flags int) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}
