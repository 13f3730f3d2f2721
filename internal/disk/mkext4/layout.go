package mkext4

import "github.com/pyro-mcp/pyro/internal/fault"

// Size is the size of every image, in bytes.
const Size = 16 << 30

// The layout, in blocks where nothing else is said. It is the same in every image.
const (
	blockSize  = 4096 // bytes
	blockCount = Size / blockSize
	groupSize  = 8 * blockSize // what a block has bits for
	groupCount = blockCount / groupSize
	// Groups whose bitmaps and inodes lie together, as many as mke2fs takes.
	flexGroups = 16
	flexSize   = flexGroups * groupSize

	inodeSize = 256 // bytes
	// There is an inode for every 15 KiB: a million files, the most that an image from a registry may have, with some to spare.
	groupInodes = 8448
	tableSize   = groupInodes * inodeSize / blockSize
	inodeCount  = groupInodes * groupCount

	descriptorSize = 32 // bytes; those of all groups fill one block
	groupHead      = 2  // blocks of the superblock and the descriptors
	copyGroup      = 1  // has a copy of them
	copyStart      = copyGroup * groupSize

	// What comes together for 16 groups: a bitmap of blocks and one of inodes for each, and their inodes.
	flexHead = flexGroups * (2 + tableSize)

	journalSize  = 32 << 20 / blockSize
	journalStart = groupHead + flexHead
	dataStart    = journalStart + journalSize
)

// Inodes that have a meaning.
const (
	rootInode    = 2
	journalInode = 8
	firstInode   = 11 // lost+found
)

// flexStart is where the bitmaps of 16 groups begin, and behind them their inodes.
func flexStart(flex int) uint32 {
	if flex == 0 {
		return groupHead
	}
	return uint32(flex) * flexSize
}

// Of the groups' parts the places, in blocks.
func blockBitmapAt(group int) uint32 { return flexStart(group/flexGroups) + uint32(group%flexGroups) }
func inodeBitmapAt(group int) uint32 { return blockBitmapAt(group) + flexGroups }
func inodeTableAt(group int) uint32 {
	return flexStart(group/flexGroups) + 2*flexGroups + uint32(group%flexGroups)*tableSize
}

// reserved gives the end of the stretch of blocks that begins at a block and is not for content. It is at itself where none does.
func reserved(at uint32) uint32 {
	switch {
	case at == copyStart:
		return at + groupHead
	case at%flexSize == 0 && at < blockCount:
		return at + flexHead
	}
	return at
}

// nextReserved is where the next stretch that is not for content begins, or the image ends.
func nextReserved(at uint32) uint32 {
	if at < copyStart {
		return copyStart
	}
	return (at/flexSize + 1) * flexSize
}

var errFull = fault.New(fault.Exhausted, "", "", "it does not fit an image of %d GiB", Size>>30)
