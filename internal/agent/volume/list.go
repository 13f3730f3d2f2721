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

// readFlags are the flags for opening files for reading. They prevent an open of a pipe from
// blocking.
const readFlags = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// Lister lists a directory tree. A caller might list twenty thousand files to find a few changed
// ones. So an entry costs one system call and no allocation. Names are NUL-terminated, so that
// system calls can use them without a copy.
type Lister struct {
	top   *os.File
	last  string // the entry of top to list; empty to list top itself
	depth int    // levels of directories to list; 0 for none, 1 for top only
	to    entries

	path   []byte // path of the current directory, relative to the listed path.
	names  []byte // NUL-terminated names in the current directory and its parents.
	order  []span // positions in names, sorted, one directory after another.
	dirent []byte // buffer for the result of getdents.
	target [listing.MaxPath + 1]byte
	st     unix.Statx_t

	attributes listing.Attributes // attributes of the current entry; a field, because a local variable would be allocated
}

// entries receives the entries of a list.
type entries interface {
	Add(path []byte, a *listing.Attributes, target []byte) error
	Close() error
}

// each is a function that receives the entries of a list.
type each func(listing.Entry) error

func (f each) Add(path []byte, a *listing.Attributes, target []byte) error {
	return f(listing.Entry{Path: string(path), Attributes: *a, Target: string(target)})
}

func (f each) Close() error { return nil }

// maxNameBytes limits the names that a Lister or a treeWriter holds in memory at a time, in bytes.
const maxNameBytes = 256 << 20

// span is the position of a name in Lister.names, without the NUL.
type span struct{ from, to int32 }

// List prepares a list of the entry at a path and the entries of that directory. If recursive is
// true, the list includes everything below the path.
func (r *Reader) List(name string, recursive bool) (*Lister, error) {
	top, err := r.openBeneath(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	depth := 1
	if recursive {
		depth = listing.MaxPath // larger than any depth
	}
	return listerOf(top, depth), nil
}

// Stat prepares a list with only the entry at a path. It follows no symbolic links.
func (r *Reader) Stat(name string) (*Lister, error) {
	above, last := parentOf(name)
	dir, err := r.openBeneath(above, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	if _, err := lstatAt(int(dir.Fd()), last); last != "" && err != nil {
		dir.Close()
		if err == errNoEntry {
			err = unix.ENOENT
		}
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	l := listerOf(dir, 0)
	l.last = last
	return l, nil
}

// ListIn prepares a list of a path below root. depth is the number of directory levels to list.
// With depth 0, the list has only the entry itself, and ListIn does not follow a link at the end of
// the path. Otherwise ListIn follows such a link.
func ListIn(root int, name string, depth int) (*Lister, error) {
	flags := unix.O_PATH
	if depth == 0 {
		flags |= unix.O_NOFOLLOW
	} else { // without a trailing slash, which would change the error for a file
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

// Close closes the top directory.
func (l *Lister) Close() { l.top.Close() }

// Write writes the list in the format of package listing.
func (l *Lister) Write(to io.Writer) error { return l.list(listing.NewWriter(to)) }

// Each calls a function with each entry of the list. It stops at the first error of the function.
func (l *Lister) Each(do func(listing.Entry) error) error { return l.list(each(do)) }

func (l *Lister) list(to entries) error {
	l.to = to
	fd, name := int(l.top.Fd()), append([]byte(l.last), 0)
	if err := l.stat(fd, &name[0], unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return l.pathError("stat", err)
	}
	l.attributes = l.attributesOf()
	kind := l.attributes.Kind
	var target []byte
	if kind == listing.Link {
		n, err := l.readlink(fd, &name[0])
		if err != nil {
			return l.pathError("readlink", err)
		}
		target = l.target[:n]
	}
	if err := l.to.Add(nil, &l.attributes, target); err != nil {
		return err
	}
	if kind == listing.Folder && l.depth > 0 {
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

// folder lists the directory at l.path.
func (l *Lister) folder(dir int) error {
	first, last := len(l.order), len(l.names)
	if err := l.read(dir); err != nil {
		return l.pathError("read", err)
	}
	for i := first; i < len(l.order); i++ {
		if err := l.entry(dir, l.order[i]); err != nil {
			return err
		}
	}
	l.order, l.names = l.order[:first], l.names[:last]
	return nil
}

// pathError returns the error of an operation on l.path.
func (l *Lister) pathError(op string, err error) error {
	return &os.PathError{Op: op, Path: strings.Trim(l.top.Name()+"/"+l.last+string(l.path), "/"), Err: err}
}

// read appends the names in a directory to l.names and l.order, in sorted order.
func (l *Lister) read(dir int) error {
	first := len(l.order)
	for {
		n, err := unix.Getdents(dir, l.dirent)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT: // the directory was removed
			n = 0
		case err != nil:
			return err
		}
		if n <= 0 {
			break
		}
		if len(l.names) > maxNameBytes {
			return unix.EOVERFLOW
		}
		for b := l.dirent[:n]; len(b) > 0; {
			// struct linux_dirent64: inode and offset (8 bytes each), length (2), type (1), name
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

// entry adds an entry and everything below it, down to the requested depth. It skips entries that
// no longer exist.
func (l *Lister) entry(dir int, at span) error {
	length := len(l.path)
	defer func() { l.path = l.path[:length] }()
	if length > 0 {
		l.path = append(l.path, '/')
	}
	l.path = append(l.path, l.names[at.from:at.to]...)
	if len(l.path) > listing.MaxPath {
		return l.pathError("list", unix.ENAMETOOLONG)
	}
	name := &l.names[at.from]
	if err := l.stat(dir, name, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
		return nil
	} else if err != nil {
		return l.pathError("stat", err)
	}
	l.attributes = l.attributesOf()
	kind := l.attributes.Kind
	var target []byte
	if kind == listing.Link {
		n, err := l.readlink(dir, name)
		if err == unix.ENOENT || err == unix.EINVAL { // the link was deleted or replaced
			return nil
		}
		if err != nil {
			return l.pathError("readlink", err)
		}
		target = l.target[:n]
	}
	if err := l.to.Add(l.path, &l.attributes, target); err != nil {
		return err
	}
	if kind != listing.Folder || l.depth <= 1 {
		return nil
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|readFlags)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return l.pathError("open", err)
	}
	l.depth--
	err = l.folder(fd)
	l.depth++
	unix.Close(fd)
	return err
}

// attributesOf returns the attributes that the last call of stat has read.
func (l *Lister) attributesOf() listing.Attributes {
	return listing.Attributes{
		Kind: kindOf(uint32(l.st.Mode)), Mode: uint32(l.st.Mode) & 0o7777, Size: int64(l.st.Size), ModTime: nanos(l.st.Mtime), ChangeTime: nanos(l.st.Ctime),
		Inode: l.st.Ino, UID: l.st.Uid, GID: l.st.Gid, Links: l.st.Nlink,
	}
}

// nanos returns a time in nanoseconds since 1970. For times before 1970, gVisor reports negative
// nanoseconds.
func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(int32(t.Nsec)) }

func kindOf(mode uint32) listing.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return listing.File
	case unix.S_IFDIR:
		return listing.Folder
	case unix.S_IFLNK:
		return listing.Link
	case unix.S_IFIFO:
		return listing.Pipe
	case unix.S_IFSOCK:
		return listing.Socket
	case unix.S_IFCHR:
		return listing.CharDevice
	case unix.S_IFBLK:
		return listing.BlockDevice
	default:
		return listing.Other
	}
}

// The following system calls take a NUL-terminated name without copying it.

// stat reads the attributes of a directory entry into l.st.
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
