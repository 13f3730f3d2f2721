package ext4

import (
	"encoding/binary"
	"fmt"
)

// Offset and size of the superblock in bytes, independent of the block size.
const (
	superblockAt   = 1024
	superblockSize = 1024
)

// superblock contains the superblock fields that this package needs. Their values have been
// checked. See https://docs.kernel.org/filesystems/ext4/super.html.
type superblock struct {
	blockSize      int64 // bytes: a power of two from 1 KiB to 64 KiB
	blocks         int64 // number of blocks, all within the image
	inodes         uint32
	firstInode     uint32 // lower numbers are reserved, except the number of the root
	inodesPerGroup uint32
	inodeSize      int64  // In bytes. A power of two from 128 to blockSize.
	descriptorSize int64  // In bytes. A power of two from 32 to 1024.
	dirty          bool   // The journal contains changes that are not applied yet.
	journal        uint32 // Inode number of the journal, or 0 if there is none.
}

const (
	maxLogBlockSize = 6 // 1 KiB << 6 is 64 KiB
	oldFirstInode   = 11
	oldInodeSize    = 128
	oldDescriptor   = 32
	wideDescriptor  = 64 // the minimum size with the feature 64bit
	maxDescriptor   = 1024
)

// Incompatible features. A reader must support every incompatible feature of an image. Read-only
// compatible features do not affect reading.
const (
	needsRecovery = 0x4
	hasJournal    = 0x4 // a compatible feature
	bits64        = 0x80
	known         = 0x2 /* filetype */ | 0x40 /* extents */ | bits64 | 0x200 /* flex_bg */ | 0x2000 /* csum_seed */
)

// features lists unsupported features with the names that mkfs.ext4 uses.
var features = []struct {
	bit  uint32
	name string
}{
	{0x1, "compression"}, {0x8, "journal_dev"}, {0x10, "meta_bg"}, {0x100, "mmp"}, {0x400, "ea_inode"}, {0x1000, "dirdata"}, {0x4000, "large_dir"},
	{0x8000, "inline_data"}, {0x10000, "encrypt"}, {0x20000, "casefold"},
}

func parseSuperblock(raw []byte, size int64) (superblock, error) {
	le := binary.LittleEndian
	var s superblock
	if magic := le.Uint16(raw[0x38:]); magic != 0xef53 {
		return s, corrupt("the image has no superblock")
	}
	if revision := le.Uint32(raw[0x4c:]); revision != 1 {
		return s, unsupported(fmt.Sprintf("revision %d of the format", revision))
	}
	incompatible := le.Uint32(raw[0x60:])
	if err := checkFeatures(incompatible); err != nil {
		return s, err
	}
	logBlockSize := le.Uint32(raw[0x18:])
	if logBlockSize > maxLogBlockSize {
		return s, corrupt("blocks of 1 KiB << %d", logBlockSize)
	}
	s.blockSize = 1024 << logBlockSize
	blocks := uint64(le.Uint32(raw[0x4:]))
	s.descriptorSize = oldDescriptor
	if incompatible&bits64 != 0 {
		blocks |= uint64(le.Uint32(raw[0x150:])) << 32
		s.descriptorSize = int64(le.Uint16(raw[0xfe:]))
		if s.descriptorSize < wideDescriptor || s.descriptorSize > maxDescriptor || !powerOfTwo(s.descriptorSize) {
			return s, corrupt("group descriptors of %d bytes", s.descriptorSize)
		}
	}
	if blocks > uint64(size/s.blockSize) {
		return s, corrupt("%d blocks of %d bytes in an image of %d bytes", blocks, s.blockSize, size)
	}
	s.blocks = int64(blocks)
	s.inodeSize = int64(le.Uint16(raw[0x58:]))
	if s.inodeSize < oldInodeSize || s.inodeSize > s.blockSize || !powerOfTwo(s.inodeSize) {
		return s, corrupt("inodes of %d bytes", s.inodeSize)
	}
	s.inodes, s.firstInode, s.inodesPerGroup = le.Uint32(raw[0x0:]), le.Uint32(raw[0x54:]), le.Uint32(raw[0x28:])
	if s.inodesPerGroup == 0 || int64(s.inodesPerGroup) > 8*s.blockSize {
		return s, corrupt("groups of %d inodes", s.inodesPerGroup)
	}
	if s.firstInode < oldFirstInode {
		return s, corrupt("the first inode of a file is %d", s.firstInode)
	}
	s.dirty = incompatible&needsRecovery != 0
	if le.Uint32(raw[0x5c:])&hasJournal != 0 {
		s.journal = le.Uint32(raw[0xe0:])
	}
	return s, nil
}

func checkFeatures(incompatible uint32) error {
	for _, f := range features {
		if incompatible&f.bit != 0 {
			return unsupported("the feature " + f.name)
		}
	}
	if rest := incompatible &^ (known | needsRecovery); rest != 0 {
		return unsupported(fmt.Sprintf("unknown features (%#x)", rest))
	}
	return nil
}

func powerOfTwo(n int64) bool { return n > 0 && n&(n-1) == 0 }
