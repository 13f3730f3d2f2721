// Package view shows a machine's root and its volume as one read-only file system. It does not
// start the machine. The files of the volume are at /workspace.
//
// A view consists of trees. A tree is one of the following:
//   - An ext4 image ([ext4.FS]).
//   - A subtree ([Subtree]).
//   - A tree with changes from a tar archive ([Over]).
//   - A directory of the host ([Folder]).
//
// [Export] writes a view as one image.
//
// Guests might have written all of this data. The package never follows symbolic links, and no path
// leaves its tree. The work for each call is limited by the amount of data that the call reads.
package view

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
)

// Tree is a file system of a guest. Paths are as in package fs, but names can be invalid UTF-8. A
// tree does not follow symbolic links: it returns ErrSymlink for a path through a link and when a
// link is opened. Lists are sorted. FileInfo.Sys returns a *syscall.Stat_t. Its device and inode
// numbers identify a file, and hard links to the same file share them.
//
// An open regular file is an io.ReaderAt. It can also implement mkext4.Sparse to report its holes.
// Devices, pipes and sockets have no content.
type Tree interface {
	fs.ReadDirFS
	fs.ReadLinkFS
	// Xattrs returns the extended attributes of a file by name. Values are in the format of ext4.
	Xattrs(name string) (map[string]string, error)
}

// ErrSymlink reports that a path leads through a symbolic link. It also reports that a path ends at
// a symbolic link although the operation needs another type of file.
var ErrSymlink = ext4.ErrSymlink

// Workspace is the path of the volume in a view.
const Workspace = "workspace"

// FS is a view. It implements [Tree] and [fs.StatFS]. It is safe for concurrent use if its trees
// are.
type FS struct {
	root   Tree
	volume Tree // nil if the view has no volume
}

var (
	_ Tree      = (*FS)(nil)
	_ fs.StatFS = (*FS)(nil)
)

// New returns a view. If volume is not nil, it replaces the root's content at Workspace. The caller
// must close the files of the trees.
func New(root, volume Tree) *FS { return &FS{root, volume} }

// Root returns the tree of the root, without the volume.
func (v *FS) Root() Tree { return v.root }

// route returns the tree for a path and the path within that tree.
func (v *FS) route(name string) (t Tree, inside string, isVolume bool) {
	rest, below := strings.CutPrefix(name, Workspace)
	switch {
	case v.volume == nil || !below:
	case rest == "":
		return v.volume, ".", true
	case rest == "/.":
		return v.volume, "", true // an empty name is invalid too
	case rest[0] == '/':
		return v.volume, rest[1:], true
	}
	return v.root, name, false
}

// Open opens a file or directory.
func (v *FS) Open(name string) (fs.File, error) {
	t, inside, isVolume := v.route(name)
	f, err := t.Open(inside)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	stat, err := f.Stat()
	if err != nil || !stat.IsDir() {
		return f, pathError("stat", name, err)
	}
	return &folder{info: v.shown(stat, name, isVolume), path: name, list: v.ReadDir}, f.Close()
}

// Lstat describes a file. It does not follow symbolic links.
func (v *FS) Lstat(name string) (fs.FileInfo, error) {
	t, inside, isVolume := v.route(name)
	stat, err := t.Lstat(inside)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return v.shown(stat, name, isVolume), nil
}

// Stat is like Lstat, but returns ErrSymlink for a symbolic link.
func (v *FS) Stat(name string) (fs.FileInfo, error) {
	stat, err := v.Lstat(name)
	if err == nil && stat.Mode()&fs.ModeSymlink != 0 {
		return nil, pathError("stat", name, ErrSymlink)
	}
	return stat, err
}

// ReadLink returns the target of a symbolic link.
func (v *FS) ReadLink(name string) (string, error) {
	t, inside, _ := v.route(name)
	target, err := t.ReadLink(inside)
	return target, pathError("readlink", name, err)
}

// Xattrs returns the extended attributes of a file.
func (v *FS) Xattrs(name string) (map[string]string, error) {
	t, inside, _ := v.route(name)
	attributes, err := t.Xattrs(inside)
	return attributes, pathError("getxattr", name, err)
}

// ReadDir lists a directory, sorted by name.
func (v *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	t, inside, isVolume := v.route(name)
	entries, err := t.ReadDir(inside)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	if isVolume {
		for i, e := range entries {
			entries[i] = volumeEntry{e}
		}
	}
	if name != "." || v.volume == nil {
		return entries, nil
	}
	stat, err := v.Lstat(Workspace)
	if err != nil {
		return nil, err
	}
	at, found := slices.BinarySearchFunc(entries, Workspace, func(e fs.DirEntry, name string) int { return cmp.Compare(e.Name(), name) })
	if found {
		entries = slices.Delete(entries, at, at+1)
	}
	return slices.Insert(entries, at, fs.FileInfoToDirEntry(stat)), nil
}

// shown returns the FileInfo of a file in the view.
func (v *FS) shown(stat fs.FileInfo, name string, isVolume bool) fs.FileInfo {
	if isVolume {
		return volumeInfo{stat, path.Base(name)}
	}
	return stat
}

// volumeDevice distinguishes files of the volume from files of the root. Both can have the same
// inode numbers.
const volumeDevice = 1 << 63

type volumeInfo struct {
	fs.FileInfo
	name string
}

func (i volumeInfo) Name() string { return i.name }

func (i volumeInfo) Sys() any {
	st, ok := i.FileInfo.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	other := *st
	other.Dev |= volumeDevice
	return &other
}

type volumeEntry struct{ fs.DirEntry }

func (e volumeEntry) Info() (fs.FileInfo, error) {
	stat, err := e.DirEntry.Info()
	if err != nil {
		return nil, err
	}
	return volumeInfo{stat, stat.Name()}, nil
}

// pathError replaces the operation and the path of err. It returns nil if err is nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if within, ok := errors.AsType[*fs.PathError](err); ok {
		err = within.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
