// Package mkext4 writes fresh ext4 images from file trees that are told entry by entry, without root, without mounting and without other programs.
//
// Every image has the same size, and is sparse: what is not used takes no space of the host. Its file system may be smaller, and those of one size have one
// layout. The content of files is written one after the other as it comes, in as few extents as there can be; blocks of zeros become holes of the files. Folders of more than a block are hash trees, as Linux
// makes them. There is a journal, which is empty. What was written is what e2fsck calls clean, and the kernel goes on with it like with any other file system.
//
// Where things lie (layout.go): in the first block the superblock, in the second the descriptors of the groups, and a copy of both in group 1. Groups are
// gathered by 16, whose bitmaps and inodes lie together at the beginning of the first one. Behind those of the first 16 is the journal, and then comes the
// content. In a small file system there are fewer groups, of which the last may be smaller, and the journal is smaller.
//
// The same calls write the same bytes. The facts are those of https://docs.kernel.org/filesystems/ext4/, and where that is silent those of fs/ext4 in Linux.
package mkext4

import (
	"io"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Identity is what tells images apart.
type Identity struct {
	Label string // at most 16 bytes
	UUID  [16]byte
	Made  time.Time // when it was made
}

// Entry is a file, folder, link or device.
type Entry struct {
	Mode     uint32 // kind and permissions as in stat(2)
	UID, GID uint32
	// Times are kept to the nanosecond, from 1901 to 2446.
	Accessed, Modified, Changed time.Time

	Size   int64             // of a regular file, in bytes
	Target string            // of a symbolic link: 1 to 4095 bytes
	Device uint64            // number of a device, as in stat(2)
	Xattrs map[string]string // by whole names, such as user.a; values as they are on the disk
}

// Sparse is content that tells where it has data. What lies between counts as zeros and is not read.
type Sparse interface {
	io.ReaderAt
	// NextData gives the first stretch of data that ends after an offset, an empty one where there is none. It may begin before the offset.
	NextData(offset int64) (start, end int64, err error)
}

// Writer writes an image. It is for one goroutine. After an error it is of no more use.
type Writer struct {
	layout layout
	out    *os.File
	id     Identity
	tree   tree
	data   data
	inodes inodes
}

// New begins an image in an empty file, with an empty root folder that belongs to root, mode 0755, and a folder lost+found in it. Its file system has size bytes,
// MinSize to Size, or up to 2.5 MiB less.
func New(out *os.File, id Identity, size int64) (*Writer, error) {
	l, err := layoutOf(size)
	if err != nil {
		return nil, err
	}
	if err := out.Truncate(Size); err != nil {
		return nil, err
	}
	w := &Writer{layout: l, out: out, id: id, inodes: inodes{layout: l, out: out, last: firstInode - 1}}
	w.data = data{layout: l, out: out, buffer: make([]byte, 0, bufferSize), at: l.dataAt()}
	w.begin()
	return w, nil
}

// Add adds an entry at a path, "." for the root folder. Folders above it that are not there yet are made, with mode, owner and times of the folder that they
// are in. A folder that is there already gets what the entry says, and keeps what is in it; anything else is there only once.
//
// content is read to the end of a regular file's Size, and not used for other kinds. The errors are faults of kind Corrupt for what no file system can
// hold and Exhausted for more than fits, or whatever content and the disk give.
func (w *Writer) Add(name string, e Entry, content io.Reader) error {
	parent, last, err := w.parentOf(name)
	if err != nil {
		return err
	}
	if err := w.add(parent, last, e, content); err != nil {
		return fault.Wrap(err, "make file system at", short(name))
	}
	return nil
}

// Link gives what is at a path another name. Folders above the new one are made as by Add.
func (w *Writer) Link(name, to string) error {
	target, err := w.tree.find(to)
	if err != nil {
		return fault.Wrap(err, "make file system at", short(name))
	}
	parent, last, err := w.parentOf(name)
	if err != nil {
		return err
	}
	return fault.Wrap(w.link(parent, last, target), "make file system at", short(name))
}

// Finish writes what could not be written before, and leaves flushing to the caller.
func (w *Writer) Finish() error {
	for _, folder := range w.tree.folders {
		if err := w.writeFolder(folder); err != nil {
			return err
		}
	}
	if err := w.data.flush(); err != nil {
		return err
	}
	for _, n := range w.tree.linked {
		if err := w.inodes.setLinks(n.number, n.links); err != nil {
			return err
		}
	}
	if err := w.writeJournal(); err != nil {
		return err
	}
	if err := w.inodes.flush(); err != nil {
		return err
	}
	return w.writeGroups()
}

func corrupt(format string, args ...any) error {
	return fault.Newf(fault.Corrupt, format, args...)
}

// short keeps the names in errors at a length that can be read.
func short(name string) string {
	if len(name) > 200 {
		return name[:200] + "…"
	}
	return name
}
