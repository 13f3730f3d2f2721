package ext4

import "encoding/binary"

// run is a range of file blocks that are adjacent in the image, or that all read as zeros.
type run struct {
	start int64 // first block in the image, or 0 if the range reads as zeros
	count int64 // number of blocks, at least 1
}

// Layout of extent tree nodes, see https://docs.kernel.org/filesystems/ext4/ifork.html#extent-tree.
// A node consists of a header and entries of 12 bytes each. The root is in the inode, and every
// other node occupies a block.
const (
	extentMagic = 0xf30a
	extentSize  = 12
	maxDepth    = 5
	// maxExtent is the length of the largest extent, in blocks. A larger value means an extent of
	// value-maxExtent blocks that are allocated but not written, and therefore read as zeros.
	maxExtent = 32768
)

// find returns the run that contains a block of a file, starting at that block.
//
// In a damaged image the entries of a node can be unsorted, so find looks at all of them. It uses
// the last entry that begins at or before the block. That entry ends where the next entry begins.
func (fsys *FS) find(file *inode, block int64) (run, error) {
	node, end := file.root[:], int64(maxFileBlocks)
	depth, err := depthOf(node)
	if err != nil {
		return run{}, err
	}
	for {
		entry, next := choose(node, block)
		end = min(end, next)
		switch {
		case entry == nil:
			return run{0, end - block}, nil
		case depth == 0:
			return fsys.extent(entry, block, end)
		}
		if node, err = fsys.child(entry); err != nil {
			return run{}, err
		}
		depth--
		if d, err := depthOf(node); err != nil {
			return run{}, err
		} else if d != depth {
			return run{}, corrupt("an extent tree node claims depth %d at depth %d", d, depth)
		}
	}
}

// depthOf checks the header of a node and returns the number of levels below it.
func depthOf(node []byte) (int, error) {
	le := binary.LittleEndian
	magic, entries, depth := le.Uint16(node[0:]), int(le.Uint16(node[2:])), int(le.Uint16(node[6:]))
	if magic != extentMagic || entries > len(node)/extentSize-1 || depth > maxDepth {
		return 0, corrupt("an extent tree node with %d entries, depth %d and magic %#x", entries, depth, magic)
	}
	return depth, nil
}

// choose returns the entry for a block, or nil if there is none, and the first block of the next
// entry.
func choose(node []byte, block int64) (entry []byte, next int64) {
	le := binary.LittleEndian
	last, next := int64(-1), maxFileBlocks
	for i := range int(le.Uint16(node[2:])) {
		e := node[(i+1)*extentSize:][:extentSize]
		switch first := int64(le.Uint32(e)); {
		case first > block:
			next = min(next, first)
		case first > last:
			entry, last = e, first
		}
	}
	return entry, next
}

// extent returns the part of a leaf entry that starts at block.
func (fsys *FS) extent(entry []byte, block, end int64) (run, error) {
	le := binary.LittleEndian
	first, count := int64(le.Uint32(entry[0:])), int64(le.Uint16(entry[4:]))
	start := int64(le.Uint16(entry[6:]))<<32 | int64(le.Uint32(entry[8:]))
	written := count <= maxExtent
	if !written {
		count -= maxExtent
	}
	if count == 0 || start == 0 || start > fsys.blocks-count {
		return run{}, corrupt("an extent of %d blocks at block %d", count, start)
	}
	if block >= first+count {
		return run{0, end - block}, nil
	}
	r := run{start + block - first, min(first+count, end) - block}
	if !written {
		r.start = 0
	}
	return r, nil
}

// child reads the node that an index entry points to.
func (fsys *FS) child(entry []byte) ([]byte, error) {
	le := binary.LittleEndian
	at := int64(le.Uint16(entry[8:]))<<32 | int64(le.Uint32(entry[4:]))
	if at == 0 || at >= fsys.blocks {
		return nil, corrupt("an extent tree node at block %d", at)
	}
	node := make([]byte, fsys.blockSize)
	return node, fsys.readMetadata(node, at*fsys.blockSize)
}
