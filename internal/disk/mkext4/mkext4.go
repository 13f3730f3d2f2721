// Package mkext4 writes new ext4 images from file trees, one entry at a time. It needs neither root
// nor mounts nor other programs.
//
// Every image file has the same size. It is sparse, so unused parts occupy no space on the host.
// The file system in an image can be smaller than the image. All file systems of one size have the
// same layout.
//
// File content is written in the order of the calls, in as few extents as possible. Blocks of zeros
// become holes. Directories larger than a block are hash trees, as in Linux. The journal is empty.
// e2fsck reports that the images are clean, and the kernel can mount and write them.
//
// For the layout see layout.go. The first block contains the superblock, and the second block
// contains the group descriptors. Group 1 has a copy of both. Every 16 groups form a flex group,
// which has its bitmaps and inode tables at the start of its first group. The journal follows the
// metadata of the first flex group, and the content follows the journal. A small file system has
// fewer groups, a smaller last group, and a smaller journal.
//
// Equal calls write equal bytes. The format is described in
// https://docs.kernel.org/filesystems/ext4/. For details that are missing there see fs/ext4 in
// Linux.
package mkext4

import (
	"io"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Identity distinguishes an image from others.
type Identity struct {
	Label string // at most 16 bytes
	UUID  [16]byte
	Made  time.Time // creation time
}

// Entry describes a file, directory, link or device.
type Entry struct {
	Mode     uint32 // type and permissions as in stat(2)
	UID, GID uint32
	// Times have nanosecond precision, from 1901 to 2446.
	Accessed, Modified, Changed time.Time

	Size   int64             // Size of a regular file, in bytes.
	Target string            // Target of a symbolic link, 1 to 4095 bytes.
	Device uint64            // Device number as in stat(2).
	Xattrs map[string]string // By full name, such as user.a. Values are in their encoding on disk.
}

// Sparse is content with holes. Bytes outside of its data ranges are zeros and are not read.
type Sparse interface {
	io.ReaderAt
	// NextData returns the first data range that ends after offset. If there is no such range, it
	// returns an empty range. The range can begin before offset.
	NextData(offset int64) (start, end int64, err error)
}

// Writer writes an image. It is not safe for concurrent use. After an error it must not be used
// again.
type Writer struct {
	layout layout
	out    *os.File
	id     Identity
	tree   tree
	data   data
	inodes inodes
}

// New starts an image in an empty file. The root directory of the image belongs to root, has mode
// 0755 and contains only lost+found. size is the size of the file system in bytes, from MinSize to
// Size. The file system can be up to 2.5 MiB smaller than size.
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

// Add adds an entry at a path. The path "." is the root directory. Missing parent directories get
// the mode, owner and times of their own parent. An existing directory gets the attributes of the
// entry and keeps its content. Any other path can be added only once.
//
// For a regular file, Add reads e.Size bytes from content. For other types it ignores content. If
// no file system can contain the entry, the error has kind Corrupt. If the content does not fit,
// the error has kind Exhausted. Add also returns errors from content and from the disk.
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

// Link adds a hard link with the path in name. The parameter to is the path of an existing file. It
// creates missing parent directories in the same way as Add.
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

// Finish writes the remaining parts of the image. It does not flush the image file to disk.
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

// short limits the length of names in errors.
func short(name string) string {
	if len(name) > 200 {
		return name[:200] + "…"
	}
	return name
}
