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

// Sys is a *syscall.Stat_t as of a file of the host, which is where go-erofs takes owners, times and devices from. It has what the inode tells: number, kind
// and permissions, links, owner, device, size, and the time of the last write.
func (i info) Sys() any {
	st := &syscall.Stat_t{
		Ino: uint64(i.node.number), Mode: i.node.mode, Uid: i.node.uid, Gid: i.node.gid, Rdev: i.node.device(), Size: i.node.size,
		Mtim: syscall.Timespec{Sec: i.node.modified.Unix(), Nsec: int64(i.node.modified.Nanosecond())},
	}
	setLinks(&st.Nlink, i.node.links)
	return st
}

// setLinks is for a field that has another type on each architecture.
func setLinks[T uint32 | uint64](field *T, links uint16) { *field = T(links) }

// dirEntry keeps of a file only what a listing needs: there may be a million of them.
type dirEntry struct {
	fsys   *FS
	name   string
	number uint32
	kind   fs.FileMode
}

// dirEntry takes the kind of a file from its inode. The directory has it too, but could say anything.
func (fsys *FS) dirEntry(e entry) dirEntry {
	kind := fs.ModeIrregular
	if node, err := fsys.inode(e.inode); err == nil {
		kind = node.fileMode().Type()
	}
	return dirEntry{fsys, e.name, e.inode, kind}
}

func (e dirEntry) Name() string      { return e.name }
func (e dirEntry) IsDir() bool       { return e.kind.IsDir() }
func (e dirEntry) Type() fs.FileMode { return e.kind }
func (e dirEntry) String() string    { return fs.FormatDirEntry(e) }

func (e dirEntry) Info() (fs.FileInfo, error) {
	node, err := e.fsys.inode(e.number)
	if err != nil {
		return nil, pathError("lstat", e.name, err)
	}
	return info{e.name, node}, nil
}
