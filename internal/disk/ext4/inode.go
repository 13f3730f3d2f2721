package ext4

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

const rootInode = 2

// inode is a parsed inode. For the format see https://docs.kernel.org/filesystems/ext4/inodes.html.
type inode struct {
	number   uint32
	mode     uint32 // type and permissions as in stat(2)
	uid, gid uint32
	links    uint16
	size     int64 // in bytes; 0 for devices, pipes and sockets
	accessed time.Time
	changed  time.Time // time of the last change to attributes or content
	modified time.Time
	flags    uint32
	root     [60]byte // root of the extent tree, short link target, or device number
}

const (
	flagEncrypted = 0x800
	flagExtents   = 0x80000
	flagInline    = 0x10000000
)

// maxFileBlocks is the number of blocks that an extent tree can address.
const maxFileBlocks = 1 << 32

func (fsys *FS) inode(number uint32) (*inode, error) {
	node, err := fsys.readInode(number)
	if err != nil {
		return nil, fmt.Errorf("inode %d: %w", number, err)
	}
	return node, nil
}

func (fsys *FS) readInode(number uint32) (*inode, error) {
	if number != rootInode && number < fsys.firstInode {
		return nil, corrupt("the number is reserved")
	}
	return fsys.anyInode(number)
}

// anyInode reads an inode. Unlike inode, it also reads reserved inodes.
func (fsys *FS) anyInode(number uint32) (*inode, error) {
	var b [256]byte // This package does not need the later fields.
	raw := b[:min(fsys.inodeSize, int64(len(b)))]
	if err := fsys.rawInode(raw, number); err != nil {
		return nil, err
	}
	return fsys.parseInode(number, raw)
}

// rawInode reads the first len(raw) bytes of an inode.
func (fsys *FS) rawInode(raw []byte, number uint32) error {
	if number == 0 || number > fsys.inodes {
		return corrupt("the number is out of range")
	}
	group, index := int64((number-1)/fsys.inodesPerGroup), int64((number-1)%fsys.inodesPerGroup)
	table, err := fsys.inodeTable(group)
	if err != nil {
		return err
	}
	return fsys.readMetadata(raw, table*fsys.blockSize+index*fsys.inodeSize)
}

// inodeTable returns the first block of a group's inode table. The group descriptors begin in the
// block after the superblock.
func (fsys *FS) inodeTable(group int64) (int64, error) {
	var b [wideDescriptor]byte
	raw := b[:min(fsys.descriptorSize, wideDescriptor)]
	if err := fsys.readMetadata(raw, (superblockAt/fsys.blockSize+1)*fsys.blockSize+group*fsys.descriptorSize); err != nil {
		return 0, err
	}
	table := uint64(binary.LittleEndian.Uint32(raw[0x8:]))
	if len(raw) == wideDescriptor {
		table |= uint64(binary.LittleEndian.Uint32(raw[0x28:])) << 32
	}
	if table == 0 || table >= uint64(fsys.blocks) {
		return 0, corrupt("the inode table of group %d is at block %d", group, table)
	}
	return int64(table), nil
}

func (fsys *FS) parseInode(number uint32, raw []byte) (*inode, error) {
	le := binary.LittleEndian
	node := &inode{
		number: number,
		mode:   uint32(le.Uint16(raw[0x0:])),
		uid:    uint32(le.Uint16(raw[0x2:])) | uint32(le.Uint16(raw[0x78:]))<<16,
		gid:    uint32(le.Uint16(raw[0x18:])) | uint32(le.Uint16(raw[0x7a:]))<<16,
		links:  le.Uint16(raw[0x1a:]),
		flags:  le.Uint32(raw[0x20:]),
		root:   [60]byte(raw[0x28:]),
	}
	if node.links == 0 {
		return nil, corrupt("the inode is not in use")
	}
	size := uint64(le.Uint32(raw[0x4:]))
	switch node.mode & unix.S_IFMT {
	case unix.S_IFREG:
		size |= uint64(le.Uint32(raw[0x6c:])) << 32
	case unix.S_IFDIR, unix.S_IFLNK:
	case unix.S_IFCHR, unix.S_IFBLK, unix.S_IFIFO, unix.S_IFSOCK:
		size = 0
	default:
		return nil, corrupt("a file of unknown type, mode %#o", node.mode)
	}
	if size > uint64(maxFileBlocks*fsys.blockSize) {
		return nil, corrupt("a file of %d bytes", size)
	}
	node.size = int64(size)
	node.accessed, node.changed, node.modified = timeAt(raw, 0x8, 0x8c), timeAt(raw, 0xc, 0x84), timeAt(raw, 0x10, 0x88)
	return node, nil
}

// timeAt decodes a timestamp of an inode. The seconds are a signed 32-bit number. Inodes larger
// than 128 bytes can have an extra field. It contains nanoseconds, and two more bits of the seconds
// for times after 2038.
func timeAt(raw []byte, at, extraAt int) time.Time {
	le := binary.LittleEndian
	seconds, nanoseconds := int64(int32(le.Uint32(raw[at:]))), int64(0)
	if len(raw) > oldInodeSize && oldInodeSize+int(le.Uint16(raw[0x80:])) >= extraAt+4 {
		extra := le.Uint32(raw[extraAt:])
		seconds += int64(extra&3) << 32
		if ns := extra >> 2; ns < uint32(time.Second) {
			nanoseconds = int64(ns)
		}
	}
	return time.Unix(seconds, nanoseconds)
}

// device returns the device number in the encoding of stat(2). The inode has two fields for it.
// Numbers that fit into 16 bits are in the first field.
func (n *inode) device() uint64 {
	if kind := n.mode & unix.S_IFMT; kind != unix.S_IFCHR && kind != unix.S_IFBLK {
		return 0
	}
	le := binary.LittleEndian
	if old := le.Uint32(n.root[0:]); old != 0 {
		return unix.Mkdev(old>>8&0xff, old&0xff)
	}
	long := le.Uint32(n.root[4:])
	return unix.Mkdev(long>>8&0xfff, long&0xff|long>>12&0xfff00)
}

func (n *inode) fileMode() fs.FileMode {
	mode := fs.FileMode(n.mode & 0o777)
	switch n.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	}
	if n.mode&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if n.mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if n.mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
