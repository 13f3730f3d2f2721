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

// Open opens a file or directory. A regular file also implements [io.ReaderAt] and [io.Seeker], and
// has the method NextData, which skips holes. A directory is an [fs.ReadDirFile]. Devices, pipes
// and sockets have no content. For a symbolic link Open returns ErrSymlink. Closing a file has no
// effect.
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

// Stat is like Lstat, but returns ErrSymlink for a symbolic link.
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

// Lstat describes a file. It does not follow symbolic links. The Sys method of the result returns a
// *syscall.Stat_t.
func (fsys *FS) Lstat(name string) (fs.FileInfo, error) {
	found, err := fsys.lookup(name)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return info{path.Base(name), found.inode}, nil
}

// ReadLink returns the target of a symbolic link. The target has 1 to 4095 bytes and contains no
// NUL.
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

// ReadDir lists a directory, sorted by name. If the inode of an entry can't be read, the entry has
// type fs.ModeIrregular, and its Info method returns the error. ReadDir fails if the directory is
// larger than 128 MiB or has more than a million entries.
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
		entries[i] = fsys.dirEntry(e, len(entries) <= maxCached)
	}
	return entries, nil
}

// pathError adds the operation and path to err. It returns nil if err is nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
