package ext4

import (
	"io/fs"
	"syscall"
	"time"
)

// info is the [fs.FileInfo] of a file.
type info struct {
	name string
	node *inode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.node.size }
func (i info) Mode() fs.FileMode  { return i.node.fileMode() }
func (i info) ModTime() time.Time { return i.node.modified }
func (i info) IsDir() bool        { return i.Mode().IsDir() }

// Sys is a *syscall.Stat_t as of a file of the host, which is where owners, devices and hard links are taken from. It has what the inode tells: number, kind
// and permissions, links, owner, device, size, and times.
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

// setLinks is for a field that has another type on each architecture.
func setLinks[T uint32 | uint64](field *T, links uint16) { *field = T(links) }

// dirEntry keeps of a file in a large directory only what a listing needs: there may be a million of them.
type dirEntry struct {
	fsys   *FS
	name   string
	number uint32
	kind   fs.FileMode
	node   *inode // nil where it is to be read again
}

// maxKept is the most entries of a directory whose inodes are all kept: they take 200 bytes each.
const maxKept = 32 << 10

// dirEntry takes the kind of a file from its inode. The directory has it too, but could say anything.
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
