package view

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// overlay is a tree that shows changes on top of a lower tree.
type overlay struct {
	lower   Tree
	changes *changes
}

// resolved is the result of a lookup: a changed file, a lower file, or a directory that both have.
type resolved struct {
	node  *node // nil if unchanged
	below bool  // the lower tree has the file too; if node is not nil, both are directories
}

func (c overlay) lookup(name string) (resolved, error) {
	at := resolved{c.changes.root, true}
	if name == "." {
		return at, nil
	}
	for i, rest := 0, name; ; {
		part, after, more := strings.Cut(rest, "/")
		if part == "" || part == "." || part == ".." {
			return resolved{}, fs.ErrInvalid
		}
		if at.node != nil {
			next, err := c.step(at, part, name[:i+len(part)])
			if err != nil {
				return resolved{}, err
			}
			at = next
		}
		switch {
		case !more:
			return at, nil
		case at.node == nil: // The rest of the path is only in the lower tree.
		case at.node.mode&unix.S_IFMT == unix.S_IFLNK:
			return resolved{}, ErrSymlink
		case at.node.mode&unix.S_IFMT != unix.S_IFDIR:
			return resolved{}, syscall.ENOTDIR
		}
		i, rest = i+len(part)+1, after
	}
}

// step returns a child of a changed directory. path is the full path of the child.
func (c overlay) step(at resolved, part, path string) (resolved, error) {
	n := at.node.children[part]
	switch {
	case n == nil && !at.below, n != nil && n.whiteout():
		return resolved{}, fs.ErrNotExist
	case n == nil:
		return resolved{nil, true}, nil
	case !at.below || n.opaque || n.children == nil:
		return resolved{n, false}, nil
	}
	stat, err := c.lower.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) { // The lower tree can't contain such a long path.
		return resolved{}, err
	}
	return resolved{n, err == nil && stat.IsDir()}, nil
}

func (c overlay) Lstat(name string) (fs.FileInfo, error) {
	at, err := c.lookup(name)
	switch {
	case err != nil:
		return nil, pathError("lstat", name, err)
	case at.node == nil || at.node.implied:
		return c.lower.Lstat(name)
	}
	return nodeInfo{path.Base(name), at.node}, nil
}

func (c overlay) Open(name string) (fs.File, error) {
	at, err := c.lookup(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if at.node == nil {
		return c.lower.Open(name)
	}
	stat, err := c.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case stat.IsDir():
		return &folder{info: stat, path: name, list: c.ReadDir}, nil
	case stat.Mode()&fs.ModeSymlink != 0:
		return nil, pathError("open", name, ErrSymlink)
	case stat.Mode().IsRegular():
		return c.changes.open(at.node, stat), nil
	}
	return empty(stat), nil
}

func (c overlay) ReadLink(name string) (string, error) {
	at, err := c.lookup(name)
	switch {
	case err == nil && at.node == nil:
		return c.lower.ReadLink(name)
	case err == nil && at.node.mode&unix.S_IFMT != unix.S_IFLNK:
		err = fs.ErrInvalid
	}
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	h, err := c.changes.rereadHeader(at.node)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return h.Linkname, nil
}

func (c overlay) Xattrs(name string) (map[string]string, error) {
	at, err := c.lookup(name)
	switch {
	case err != nil:
		return nil, pathError("getxattr", name, err)
	case at.node == nil || at.node.implied:
		return c.lower.Xattrs(name)
	case !at.node.hasXattrs:
		return nil, nil
	}
	h, err := c.changes.rereadHeader(at.node)
	if err != nil {
		return nil, pathError("getxattr", name, err)
	}
	attributes, err := attributesOf(h)
	return attributes, pathError("getxattr", name, err)
}

func (c overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := c.lookup(name)
	switch {
	case err == nil && at.node == nil:
		return c.lower.ReadDir(name)
	case err == nil && at.node.mode&unix.S_IFMT == unix.S_IFLNK:
		err = ErrSymlink
	case err == nil && at.node.children == nil:
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	var entries []fs.DirEntry
	if at.below {
		if entries, err = c.lower.ReadDir(name); err != nil {
			return nil, err
		}
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return at.node.children[e.Name()] != nil })
	}
	for text, n := range at.node.children {
		if !n.whiteout() {
			entries = append(entries, fs.FileInfoToDirEntry(nodeInfo{text, n}))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// changedDevice distinguishes changed files from lower files. Files of both kinds can have the same
// inode numbers.
const changedDevice = 1 << 62

// nodeInfo is the [fs.FileInfo] of a changed file.
type nodeInfo struct {
	name string
	node *node
}

func (i nodeInfo) Name() string       { return i.name }
func (i nodeInfo) Size() int64        { return i.node.size }
func (i nodeInfo) Mode() fs.FileMode  { return fileMode(i.node.mode) }
func (i nodeInfo) ModTime() time.Time { return i.node.modified }
func (i nodeInfo) IsDir() bool        { return i.node.children != nil }

func (i nodeInfo) Sys() any {
	at := syscall.Timespec{Sec: i.node.modified.Unix(), Nsec: int64(i.node.modified.Nanosecond())}
	st := &syscall.Stat_t{
		Dev: changedDevice, Ino: i.node.number, Mode: i.node.mode, Uid: i.node.uid, Gid: i.node.gid, Rdev: i.node.device, Size: i.node.size,
		Atim: at, Mtim: at, Ctim: at,
	}
	setLinks(&st.Nlink, i.node.links)
	return st
}

// setLinks sets a field of syscall.Stat_t whose type depends on the architecture.
func setLinks[T uint32 | uint64](field *T, links uint32) { *field = T(links) }

func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	}
	for _, b := range []struct {
		from uint32
		to   fs.FileMode
	}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}} {
		if mode&b.from != 0 {
			m |= b.to
		}
	}
	return m
}
