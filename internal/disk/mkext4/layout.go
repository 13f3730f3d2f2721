package mkext4

import (
	"errors"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Size is the size of every image in bytes, and the maximum size of its file system.
const Size = 16 << 30

// MinSize is the minimum size of a file system in bytes.
const MinSize = 16 << 20

// Layout that all images share. Units are blocks unless noted otherwise.
const (
	blockSize  = 4096 // bytes
	blockCount = Size / blockSize
	groupSize  = 8 * blockSize // a bitmap of one block covers this number of blocks
	// Number of groups whose bitmaps and inode tables are adjacent. This is the default of mke2fs.
	flexGroups = 16
	flexSize   = flexGroups * groupSize

	inodeSize = 256 // bytes
	// With one inode per 15 KiB, an image can have slightly more than a million files. An image
	// from a registry can have at most a million.
	groupInodes = 8448
	tableSize   = groupInodes * inodeSize / blockSize
	groupMeta   = 2 + tableSize // block bitmap, inode bitmap and inode table of a group

	descriptorSize = 32 // In bytes. All descriptors fit into one block.
	groupHead      = 2  // Number of blocks for the superblock and the descriptors.
	copyGroup      = 1  // The group with the backup of these blocks, if that group exists.
	copyStart      = copyGroup * groupSize
	leastGroup     = 64 // Drop the last group if it has fewer blocks than this after its metadata.
)

// Reserved inode numbers.
const (
	rootInode    = 2
	journalInode = 8
	firstInode   = 11 // lost+found
)

// layout is the layout of a file system. It depends only on the size of the file system.
type layout struct {
	blocks  uint32 // Number of blocks in the file system. The image can have more.
	groups  int    // Number of groups. The last group can be smaller.
	journal uint32 // Number of blocks in the journal.
}

// layoutOf returns the layout of a file system of at most size bytes. If its last group would have
// no space for content, the file system is up to 2.5 MiB smaller.
func layoutOf(size int64) (layout, error) {
	if size < MinSize || size > Size {
		return layout{}, fault.New(fault.Invalid, "make file system", "", "its size is %d bytes, and must be %d to %d", size, MinSize, Size)
	}
	l := layout{blocks: uint32(size / blockSize)}
	least := uint32(leastGroup)
	if last := l.blocks / groupSize; last%flexGroups == 0 { // the last group contains its own metadata
		least += groupMeta
	}
	if rest := l.blocks % groupSize; rest < least {
		l.blocks -= rest
	}
	l.groups = int((l.blocks + groupSize - 1) / groupSize)
	l.journal = journalOf(l.blocks)
	return l, nil
}

// journalOf returns the size of the journal in blocks. The journal has 32 MiB, or less in small
// file systems.
func journalOf(blocks uint32) uint32 {
	switch {
	case blocks < 256<<20/blockSize:
		return 4 << 20 / blockSize // the minimum of the kernel
	case blocks < 1<<30/blockSize:
		return 16 << 20 / blockSize
	}
	return 32 << 20 / blockSize
}

func (l layout) inodes() uint32 { return groupInodes * uint32(l.groups) }

// journalAt returns the first block of the journal, which follows the metadata of the first 16
// groups.
func (l layout) journalAt() uint32 { return groupHead + l.flexHead(0) }

// dataAt returns the first block of content.
func (l layout) dataAt() uint32 { return l.journalAt() + l.journal }

// flexOf returns the number of groups in a flex group, at most 16.
func (l layout) flexOf(flex int) int { return min(flexGroups, l.groups-flex*flexGroups) }

// flexHead returns the number of metadata blocks of a flex group.
func (l layout) flexHead(flex int) uint32 { return uint32(l.flexOf(flex)) * groupMeta }

// flexStart returns the first metadata block of a flex group. In a flex group, bitmaps come before
// inode tables.
func flexStart(flex int) uint32 {
	if flex == 0 {
		return groupHead
	}
	return uint32(flex) * flexSize
}

// blockBitmapAt returns the number of the block that contains a group's block bitmap.
func (l layout) blockBitmapAt(group int) uint32 {
	return flexStart(group/flexGroups) + uint32(group%flexGroups)
}

func (l layout) inodeBitmapAt(group int) uint32 {
	return l.blockBitmapAt(group) + uint32(l.flexOf(group/flexGroups))
}

func (l layout) inodeTableAt(group int) uint32 {
	flex := group / flexGroups
	return flexStart(flex) + 2*uint32(l.flexOf(flex)) + uint32(group%flexGroups)*tableSize
}

// inodeAt returns the byte offset of an inode. Its parameter is the inode number minus 1.
func (l layout) inodeAt(index uint32) int64 {
	return int64(l.inodeTableAt(int(index/groupInodes)))*blockSize + int64(index%groupInodes)*inodeSize
}

// reserved returns the end of the reserved range that starts at a block. If no reserved range
// starts there, it returns the block itself.
func (l layout) reserved(at uint32) uint32 {
	switch {
	case at >= l.blocks:
		return at
	case at == copyStart:
		return at + groupHead
	case at%flexSize == 0:
		return at + l.flexHead(int(at/flexSize))
	}
	return at
}

// nextReserved returns the start of the next reserved range, or the end of the file system.
func (l layout) nextReserved(at uint32) uint32 {
	if at < copyStart {
		return min(copyStart, l.blocks)
	}
	return min((at/flexSize+1)*flexSize, l.blocks)
}

// ErrFull is the cause of errors that report that the content does not fit.
var ErrFull = errors.New("the content does not fit into a file system")

func (l layout) full() error {
	return fault.Newf(fault.Exhausted, "%w of %d MiB", ErrFull, int64(l.blocks)*blockSize>>20)
}
