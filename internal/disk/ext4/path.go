package ext4

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPath is Linux's limit for the length of a path, in bytes, including the final NUL. Directories
// with a longer path are listed but can't be entered.
const maxPath = 4096

// resolved is the result of a lookup.
type resolved struct {
	*inode
	parent uint32
	alias  bool
}

// lookup resolves a path, starting at the root.
func (fsys *FS) lookup(name string) (resolved, error) {
	if len(name) >= maxPath {
		return resolved{}, syscall.ENAMETOOLONG
	}
	root, err := fsys.inode(rootInode)
	if err != nil {
		return resolved{}, err
	}
	at := resolved{root, rootInode, false}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return resolved{}, fs.ErrInvalid
		}
		dir, err := fsys.enter(at)
		if err != nil {
			return resolved{}, err
		}
		entry, found := dir.find(part)
		if !found {
			return resolved{}, fs.ErrNotExist
		}
		node, err := fsys.inode(entry.inode)
		if err != nil {
			return resolved{}, err
		}
		at = resolved{node, at.number, entry.alias}
	}
	return at, nil
}

// enter reads a directory. It fails if the lookup reached the directory through a second name, or
// through a parent that is not the directory's ".." entry.
func (fsys *FS) enter(at resolved) (*directory, error) {
	switch at.mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return nil, ErrSymlink
	default:
		return nil, syscall.ENOTDIR
	}
	dir := fsys.directories.get(at.number)
	if dir == nil {
		var err error
		if dir, err = fsys.readDirectory(at.inode); err != nil {
			return nil, fmt.Errorf("inode %d: %w", at.number, err)
		}
		fsys.directories.put(dir)
	}
	if at.alias || dir.parent != at.parent {
		return nil, fmt.Errorf("inode %d: %w", at.number, corrupt("the directory is also reachable by another path"))
	}
	return dir, nil
}
