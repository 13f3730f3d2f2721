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

// changed is a tree with changes over it.
type changed struct {
	lower   Tree
	changes *changes
}

// place is where a path leads: to a change, or to what is below, or to a folder that has both.
type place struct {
	node  *node // nil for no change
	below bool  // there is something below, which for a change is a folder
}

func (c changed) lookup(name string) (place, error) {
	at := place{c.changes.root, true}
	if name == "." {
		return at, nil
	}
	for i, rest := 0, name; ; {
		part, after, more := strings.Cut(rest, "/")
		if part == "" || part == "." || part == ".." {
			return place{}, fs.ErrInvalid
		}
		if at.node != nil {
			next, err := c.step(at, part, name[:i+len(part)])
			if err != nil {
				return place{}, err
			}
			at = next
		}
		switch {
		case !more:
			return at, nil
		case at.node == nil: // the rest is only below
		case at.node.mode&unix.S_IFMT == unix.S_IFLNK:
			return place{}, ErrSymlink
		case at.node.mode&unix.S_IFMT != unix.S_IFDIR:
			return place{}, syscall.ENOTDIR
		}
		i, rest = i+len(part)+1, after
	}
}

// step goes from a folder that was changed to what it has under a name. The path is that of it.
func (c changed) step(at place, part, path string) (place, error) {
	n := at.node.children[part]
	switch {
	case n == nil && !at.below, n != nil && n.whiteout():
		return place{}, fs.ErrNotExist
	case n == nil:
		return place{nil, true}, nil
	case !at.below || n.opaque || n.children == nil:
		return place{n, false}, nil
	}
	stat, err := c.lower.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) { // what is so deep is not there
		return place{}, err
	}
	return place{n, err == nil && stat.IsDir()}, nil
}

func (c changed) Lstat(name string) (fs.FileInfo, error) {
	at, err := c.lookup(name)
	switch {
	case err != nil:
		return nil, pathError("lstat", name, err)
	case at.node == nil || at.node.implied:
		return c.lower.Lstat(name)
	}
	return nodeInfo{path.Base(name), at.node}, nil
}

func (c changed) Open(name string) (fs.File, error) {
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

func (c changed) ReadLink(name string) (string, error) {
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
	h, err := c.changes.again(at.node)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return h.Linkname, nil
}

func (c changed) Xattrs(name string) (map[string]string, error) {
	at, err := c.lookup(name)
	switch {
	case err != nil:
		return nil, pathError("getxattr", name, err)
	case at.node == nil || at.node.implied:
		return c.lower.Xattrs(name)
	case !at.node.noted:
		return nil, nil
	}
	h, err := c.changes.again(at.node)
	if err != nil {
		return nil, pathError("getxattr", name, err)
	}
	attributes, err := attributesOf(h)
	return attributes, pathError("getxattr", name, err)
}

func (c changed) ReadDir(name string) ([]fs.DirEntry, error) {
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

// changedDevice tells files that were changed from those below, which may have the same inodes.
const changedDevice = 1 << 62

// nodeInfo is the [fs.FileInfo] of what was changed.
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

// setLinks is for a field that has another type on each architecture.
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
