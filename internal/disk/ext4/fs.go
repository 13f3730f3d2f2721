package ext4

import (
	"io"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// Open opens a file or a directory. What it gives for a regular file is an [io.ReaderAt] and [io.Seeker] too, and tells by NextData where its holes are;
// what it gives for a directory is an [fs.ReadDirFile].
// Devices, pipes and sockets open and are empty; a symbolic link is ErrSymlink. Closing does nothing.
func (fsys *FS) Open(name string) (fs.File, error) {
	file, err := fsys.open(name)
	return file, pathError("open", name, err)
}

func (fsys *FS) open(name string) (fs.File, error) {
	found, err := fsys.lookup(name)
	if err != nil {
		return nil, err
	}
	stat := info{path.Base(name), found.inode}
	switch found.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return &folder{info: stat, fsys: fsys, path: name}, nil
	case unix.S_IFLNK:
		return nil, ErrSymlink
	case unix.S_IFREG:
		content, err := fsys.content(found.inode)
		if err != nil {
			return nil, err
		}
		return &file{content, fsys, stat, name}, nil
	}
	return &file{io.NewSectionReader(nil, 0, 0), fsys, stat, name}, nil
}

// Stat is Lstat, but for a symbolic link it is ErrSymlink.
func (fsys *FS) Stat(name string) (fs.FileInfo, error) {
	found, err := fsys.lookup(name)
	if err == nil && found.mode&unix.S_IFMT == unix.S_IFLNK {
		err = ErrSymlink
	}
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return info{path.Base(name), found.inode}, nil
}

// Lstat tells of a file what [fs.FileInfo] can hold; its Sys is a *syscall.Stat_t.
func (fsys *FS) Lstat(name string) (fs.FileInfo, error) {
	found, err := fsys.lookup(name)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return info{path.Base(name), found.inode}, nil
}

// ReadLink gives what a symbolic link says: any bytes but zero, 1 to 4095 of them.
func (fsys *FS) ReadLink(name string) (string, error) {
	found, err := fsys.lookup(name)
	if err == nil && found.mode&unix.S_IFMT != unix.S_IFLNK {
		err = fs.ErrInvalid
	}
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	target, err := fsys.target(found.inode)
	return target, pathError("readlink", name, err)
}

// ReadDir lists a directory, sorted by name. An entry whose inode can't be read is irregular, and its Info gives the error. A directory of more
// than 128 MiB or a million entries gives an error.
func (fsys *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	found, err := fsys.lookup(name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	dir, err := fsys.enter(found)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, len(dir.entries))
	for i, e := range dir.entries {
		entries[i] = fsys.dirEntry(e, len(entries) <= maxKept)
	}
	return entries, nil
}

// pathError says where an error came up. No error stays none.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
