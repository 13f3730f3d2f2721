package erofs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// superblock is the header of an image, at superblockAt.
type superblock struct {
	Magic           uint32
	Checksum        uint32 // unused, because the checksum feature is off
	FeatureCompat   uint32
	BlockBits       uint8
	ExtraSlots      uint8
	Root            uint16 // node number
	Inodes          uint64
	_               [3]uint32 // build time, unused
	Blocks          uint32
	MetaBlock       uint32 // first block of the inodes
	XattrBlock      uint32
	UUID            [16]byte
	Name            [16]byte
	FeatureIncompat uint32
	_               [44]byte
}

const (
	magic        = 0xe0f5e1e2
	superblockAt = 1024
	metaBlock    = 1
)

// inode is an inode in the extended format.
type inode struct {
	Format  uint16
	Xattrs  uint16
	Mode    uint16
	_       uint16
	Size    uint64
	Block   uint32 // first block of the content, or the device number
	Ino     uint32
	UID     uint32
	GID     uint32
	MTime   uint64
	MTimeNs uint32
	Links   uint32
	_       [16]byte
}

// extendedPlain is the Format of an extended inode whose content is a run of uncompressed blocks.
const extendedPlain = 1

// writer writes an image.
type writer struct {
	out    *os.File
	tree   fs.FS
	blocks int64
	buffer [256 << 10]byte
}

func (w *writer) put(at int64, v any) error {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		return err
	}
	_, err := w.out.WriteAt(b.Bytes(), at)
	return err
}

func (w *writer) superblock(t *scanned) error {
	return w.put(superblockAt, superblock{
		Magic: magic, BlockBits: 12, Inodes: uint64(len(t.nodes)), Blocks: uint32(w.blocks), MetaBlock: metaBlock,
	})
}

// node writes an inode and its content.
func (w *writer) node(n *node) error {
	i := inode{
		Format: extendedPlain, Mode: mode(n.info.Mode()), Size: uint64(n.size), Block: uint32(n.block), Ino: uint32(n.id/slotsPerInode) + 1,
		MTime: uint64(n.info.ModTime().Unix()), MTimeNs: uint32(n.info.ModTime().Nanosecond()), Links: n.links,
	}
	if st, ok := n.info.Sys().(*syscall.Stat_t); ok {
		i.UID, i.GID = st.Uid, st.Gid
		if n.info.Mode()&fs.ModeDevice != 0 {
			i.Block = deviceNumber(uint64(st.Rdev))
		}
	}
	if err := w.put(metaBlock*blockSize+int64(n.id/slotsPerInode)*inodeSize, i); err != nil {
		return err
	}
	switch n.info.Mode().Type() {
	case 0:
		return w.file(n)
	case fs.ModeDir:
		_, err := w.out.WriteAt(folder(n.entries), n.block*blockSize)
		return err
	case fs.ModeSymlink:
		_, err := w.out.WriteAt([]byte(n.target), n.block*blockSize)
		return err
	}
	return nil
}

// file writes the content of a regular file. It leaves holes in place of zeros.
func (w *writer) file(n *node) error {
	if n.size == 0 {
		return nil
	}
	f, err := w.tree.Open(n.path)
	if err != nil {
		return err
	}
	defer f.Close()
	at, left := n.block*blockSize, n.size
	for left > 0 {
		b := w.buffer[:min(int64(len(w.buffer)), left)]
		if _, err := io.ReadFull(f, b); err != nil {
			return fmt.Errorf("the file is shorter than its size: %w", err)
		}
		if len(bytes.TrimLeft(b, "\x00")) > 0 {
			if _, err := w.out.WriteAt(b, at); err != nil {
				return err
			}
		}
		at += int64(len(b))
		left -= int64(len(b))
	}
	return nil
}

// mode returns the mode bits that Linux uses for m.
func mode(m fs.FileMode) uint16 {
	bits := uint16(m.Perm())
	for _, b := range []struct {
		from fs.FileMode
		to   uint16
	}{{fs.ModeSetuid, unix.S_ISUID}, {fs.ModeSetgid, unix.S_ISGID}, {fs.ModeSticky, unix.S_ISVTX}} {
		if m&b.from != 0 {
			bits |= b.to
		}
	}
	switch m.Type() {
	case fs.ModeDir:
		return bits | unix.S_IFDIR
	case fs.ModeSymlink:
		return bits | unix.S_IFLNK
	case fs.ModeNamedPipe:
		return bits | unix.S_IFIFO
	case fs.ModeSocket:
		return bits | unix.S_IFSOCK
	case fs.ModeDevice:
		return bits | unix.S_IFBLK
	case fs.ModeDevice | fs.ModeCharDevice:
		return bits | unix.S_IFCHR
	}
	return bits | unix.S_IFREG
}

// deviceNumber returns the encoding of a device number in an image.
func deviceNumber(rdev uint64) uint32 {
	major, minor := unix.Major(rdev), unix.Minor(rdev)
	return minor&0xff | major<<8 | minor&^0xff<<12
}
