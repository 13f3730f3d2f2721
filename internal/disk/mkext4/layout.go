package mkext4

import (
	"errors"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Size is the size of every image in bytes, and the largest size of a file system in one.
const Size = 16 << 30

// MinSize is the smallest size of a file system, in bytes.
const MinSize = 16 << 20

// These parts of the layout are the same in every image, in blocks where nothing else is said.
const (
	blockSize  = 4096 // bytes
	blockCount = Size / blockSize
	groupSize  = 8 * blockSize // what a block has bits for
	// Groups whose bitmaps and inodes lie together, as many as mke2fs takes.
	flexGroups = 16
	flexSize   = flexGroups * groupSize

	inodeSize = 256 // bytes
	// There is an inode for every 15 KiB: a million files, the most that an image from a registry may have, with some to spare.
	groupInodes = 8448
	tableSize   = groupInodes * inodeSize / blockSize
	groupMeta   = 2 + tableSize // a group's bitmap of blocks, its bitmap of inodes, and its inodes

	descriptorSize = 32 // bytes; those of all groups fill at most one block
	groupHead      = 2  // blocks of the superblock and the descriptors
	copyGroup      = 1  // has a copy of them, if there is such a group
	copyStart      = copyGroup * groupSize
	leastGroup     = 64 // a last group with fewer blocks than that, beside its metadata, is left out
)

// Inodes that have a meaning.
const (
	rootInode    = 2
	journalInode = 8
	firstInode   = 11 // lost+found
)

// layout is where the parts of a file system lie, which follows from its size.
type layout struct {
	blocks  uint32 // of the file system; the image has more if that is smaller
	groups  int    // the last one may be smaller than the others
	journal uint32 // blocks
}

// layoutOf returns the layout of a file system of at most size bytes. It is smaller by up to 2.5 MiB if
// a last group would have no room for content.
func layoutOf(size int64) (layout, error) {
	if size < MinSize || size > Size {
		return layout{}, fault.New(fault.Invalid, "make file system", "", "%d bytes: it must be %d to %d", size, MinSize, Size)
	}
	l := layout{blocks: uint32(size / blockSize)}
	least := uint32(leastGroup)
	if last := l.blocks / groupSize; last%flexGroups == 0 { // its metadata are in it
		least += groupMeta
	}
	if rest := l.blocks % groupSize; rest < least {
		l.blocks -= rest
	}
	l.groups = int((l.blocks + groupSize - 1) / groupSize)
	l.journal = journalOf(l.blocks)
	return l, nil
}

// journalOf returns how many blocks the journal has: 32 MiB, or less in a small file system, of which it must not take too much.
func journalOf(blocks uint32) uint32 {
	switch {
	case blocks < 256<<20/blockSize:
		return 4 << 20 / blockSize // the least that the kernel takes
	case blocks < 1<<30/blockSize:
		return 16 << 20 / blockSize
	}
	return 32 << 20 / blockSize
}

func (l layout) inodes() uint32 { return groupInodes * uint32(l.groups) }

// journalAt is where the journal begins: behind the metadata of the first groups.
func (l layout) journalAt() uint32 { return groupHead + l.flexHead(0) }

// dataAt is where the content begins.
func (l layout) dataAt() uint32 { return l.journalAt() + l.journal }

// flexOf is how many of 16 groups there are.
func (l layout) flexOf(flex int) int { return min(flexGroups, l.groups-flex*flexGroups) }

// flexHead is how many blocks the metadata of 16 groups have, or of the groups that are there.
func (l layout) flexHead(flex int) uint32 { return uint32(l.flexOf(flex)) * groupMeta }

// flexStart is where the bitmaps of 16 groups begin, and behind them their inodes.
func flexStart(flex int) uint32 {
	if flex == 0 {
		return groupHead
	}
	return uint32(flex) * flexSize
}

// Of the groups' parts the places, in blocks.
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

// inodeAt is where an inode is, in bytes. It is counted from 0.
func (l layout) inodeAt(index uint32) int64 {
	return int64(l.inodeTableAt(int(index/groupInodes)))*blockSize + int64(index%groupInodes)*inodeSize
}

// reserved gives the end of the stretch of blocks that begins at a block and is not for content. It is at itself where none does.
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

// nextReserved is where the next stretch that is not for content begins, or the file system ends.
func (l layout) nextReserved(at uint32) uint32 {
	if at < copyStart {
		return min(copyStart, l.blocks)
	}
	return min((at/flexSize+1)*flexSize, l.blocks)
}

// ErrFull is the cause of errors about content that does not fit.
var ErrFull = errors.New("it does not fit a file system")

func (l layout) full() error {
	return fault.Newf(fault.Exhausted, "%w of %d MiB", ErrFull, int64(l.blocks)*blockSize>>20)
}
