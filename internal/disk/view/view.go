// Package view shows a machine's root and its volume as one read-only file system, without a machine: what it would see, with the volume's files at /workspace.
//
// A view is put together from trees: an ext4 image ([ext4.FS]), a folder of one ([Below]), an image with changes over it that are in a tar archive ([Over]),
// and a folder of the host ([Folder]). [Export] writes a view as one image.
//
// All of it may have been written by a guest. Symbolic links are never followed, no path leads out of its tree, and each call is bounded by what it reads.
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

// Tree is a file system of a guest's. Paths are as in package fs, but names are bytes, which need not be UTF-8. Symbolic links are not followed: a path
// through one, and opening one, is ErrSymlink. Lists are sorted. FileInfo.Sys is a *syscall.Stat_t, whose device and inode are the same for hard links, and
// only for those.
//
// A regular file that was opened is an io.ReaderAt; it may tell where its holes are (mkext4.Sparse). Devices, pipes and sockets open and are empty.
type Tree interface {
	fs.ReadDirFS
	fs.ReadLinkFS
	// Xattrs gives the extended attributes of a file by their names, with the values that ext4 stores.
	Xattrs(name string) (map[string]string, error)
}

// ErrSymlink says that a path has a symbolic link in it, or leads to one where something else was asked for.
var ErrSymlink = ext4.ErrSymlink

// Workspace is where a volume is seen.
const Workspace = "workspace"

// FS is a view. It is a [Tree] itself, and an [fs.StatFS], whose Stat is Lstat but for links, which are ErrSymlink. It is safe for use by several goroutines if
// its trees are.
type FS struct {
	root   Tree
	volume Tree // nil for none
}

var (
	_ Tree      = (*FS)(nil)
	_ fs.StatFS = (*FS)(nil)
)

// New makes a view. volume may be nil; otherwise it hides what the root has at Workspace. What the trees are made of stays the caller's.
func New(root, volume Tree) *FS { return &FS{root, volume} }

// route gives the tree that a path leads to, and the path in there.
func (v *FS) route(name string) (t Tree, inside string, isVolume bool) {
	rest, below := strings.CutPrefix(name, Workspace)
	switch {
	case v.volume == nil || !below:
	case rest == "":
		return v.volume, ".", true
	case rest == "/.":
		return v.volume, "", true // is no path there either
	case rest[0] == '/':
		return v.volume, rest[1:], true
	}
	return v.root, name, false
}

// Open opens a file or folder.
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

// Lstat tells of a file what there is to tell.
func (v *FS) Lstat(name string) (fs.FileInfo, error) {
	t, inside, isVolume := v.route(name)
	stat, err := t.Lstat(inside)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return v.shown(stat, name, isVolume), nil
}

// Stat is Lstat, but for a symbolic link it is ErrSymlink.
func (v *FS) Stat(name string) (fs.FileInfo, error) {
	stat, err := v.Lstat(name)
	if err == nil && stat.Mode()&fs.ModeSymlink != 0 {
		return nil, pathError("stat", name, ErrSymlink)
	}
	return stat, err
}

// ReadLink gives what a symbolic link says.
func (v *FS) ReadLink(name string) (string, error) {
	t, inside, _ := v.route(name)
	target, err := t.ReadLink(inside)
	return target, pathError("readlink", name, err)
}

// Xattrs gives the extended attributes of a file.
func (v *FS) Xattrs(name string) (map[string]string, error) {
	t, inside, _ := v.route(name)
	attributes, err := t.Xattrs(inside)
	return attributes, pathError("getxattr", name, err)
}

// ReadDir lists a folder.
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

// shown is what is told of a file at a path.
func (v *FS) shown(stat fs.FileInfo, name string, isVolume bool) fs.FileInfo {
	if isVolume {
		return volumeInfo{stat, path.Base(name)}
	}
	return stat
}

// volumeDevice tells files of the volume from those of the root, which may have the same inodes.
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

// pathError says where in a tree an error came up, instead of where in a tree below. No error stays none.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if within, ok := errors.AsType[*fs.PathError](err); ok {
		err = within.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
