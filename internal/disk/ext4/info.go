package ext4

import (
	"io/fs"
	"syscall"
	"time"
)

// info implements [fs.FileInfo].
type info struct {
	name string
	node *inode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.node.size }
func (i info) Mode() fs.FileMode  { return i.node.fileMode() }
func (i info) ModTime() time.Time { return i.node.modified }
func (i info) IsDir() bool        { return i.Mode().IsDir() }

// Sys returns a *syscall.Stat_t, as for a file on the host. It contains the inode number, mode,
// number of links, owner, device number, size and times.
func (i info) Sys() any {
	st := &syscall.Stat_t{
		Ino: uint64(i.node.number), Mode: i.node.mode, Uid: i.node.uid, Gid: i.node.gid, Rdev: i.node.device(), Size: i.node.size,
		Atim: timespec(i.node.accessed), Mtim: timespec(i.node.modified), Ctim: timespec(i.node.changed),
	}
	setLinks(&st.Nlink, i.node.links)
	return st
}

func timespec(t time.Time) syscall.Timespec {
	return syscall.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

// setLinks sets a field of syscall.Stat_t whose type depends on the architecture.
func setLinks[T uint32 | uint64](field *T, links uint16) { *field = T(links) }

// dirEntry is a directory entry. A large directory can have a million entries, so each one stores
// only the data for a listing.
type dirEntry struct {
	fsys   *FS
	name   string
	number uint32
	kind   fs.FileMode
	node   *inode // nil if Info must read the inode again
}

// maxCached limits which directories keep the inodes of their entries in memory: those with at most
// this many entries. Each inode needs about 200 bytes.
const maxCached = 32 << 10

// dirEntry reads the file type from the inode, because the type in the directory entry is not
// reliable. If keep is set, the result contains the inode.
func (fsys *FS) dirEntry(e entry, keep bool) dirEntry {
	node, err := fsys.inode(e.inode)
	if err != nil {
		return dirEntry{fsys, e.name, e.inode, fs.ModeIrregular, nil}
	}
	kind := node.fileMode().Type()
	if !keep {
		node = nil
	}
	return dirEntry{fsys, e.name, e.inode, kind, node}
}

func (e dirEntry) Name() string      { return e.name }
func (e dirEntry) IsDir() bool       { return e.kind.IsDir() }
func (e dirEntry) Type() fs.FileMode { return e.kind }
func (e dirEntry) String() string    { return fs.FormatDirEntry(e) }

func (e dirEntry) Info() (fs.FileInfo, error) {
	if e.node != nil {
		return info{e.name, e.node}, nil
	}
	node, err := e.fsys.inode(e.number)
	if err != nil {
		return nil, pathError("lstat", e.name, err)
	}
	return info{e.name, node}, nil
}
