package ext4

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPath is one more than the bytes of the longest path, as in Linux. Deeper directories are shown and can't be entered.
const maxPath = 4096

// place is where a path leads.
type place struct {
	*inode
	parent uint32
	again  bool
}

// lookup follows a path from the root.
func (fsys *FS) lookup(name string) (place, error) {
	if len(name) >= maxPath {
		return place{}, syscall.ENAMETOOLONG
	}
	root, err := fsys.inode(rootInode)
	if err != nil {
		return place{}, err
	}
	at := place{root, rootInode, false}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return place{}, fs.ErrInvalid
		}
		dir, err := fsys.enter(at)
		if err != nil {
			return place{}, err
		}
		entry, found := dir.find(part)
		if !found {
			return place{}, fs.ErrNotExist
		}
		node, err := fsys.inode(entry.inode)
		if err != nil {
			return place{}, err
		}
		at = place{node, at.number, entry.again}
	}
	return at, nil
}

// enter lists a directory that has been reached from its parent, by the one entry that leads there.
func (fsys *FS) enter(at place) (*directory, error) {
	switch at.mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return nil, ErrSymlink
	default:
		return nil, syscall.ENOTDIR
	}
	dir := fsys.shelf.take(at.number)
	if dir == nil {
		var err error
		if dir, err = fsys.readDirectory(at.inode); err != nil {
			return nil, fmt.Errorf("inode %d: %w", at.number, err)
		}
		fsys.shelf.put(dir)
	}
	if at.again || dir.parent != at.parent {
		return nil, fmt.Errorf("inode %d: %w", at.number, corrupt("a directory that is also in another place"))
	}
	return dir, nil
}
