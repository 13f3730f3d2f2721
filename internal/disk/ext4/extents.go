package ext4

import "encoding/binary"

// run is a stretch of a file's blocks that lie one after the other in the image, or that are all zeros.
type run struct {
	start int64 // block of the image; 0, where no file can be, for zeros
	count int64 // at least 1
}

// The nodes of an extent tree, after https://docs.kernel.org/filesystems/ext4/ifork.html#extent-tree: a header and entries, 12 bytes each. The root is in
// the inode and the others take a block each.
const (
	extentMagic = 0xf30a
	extentSize  = 12
	maxDepth    = 5
	// maxExtent is the most blocks that an extent has. Longer ones are of so many less, and not yet written: they read as zeros.
	maxExtent = 32768
)

// find gives the run that a block of a file is in, from that block on.
//
// All entries of a node are looked at, so that their order, which the image promises and may not keep, does not matter: the entry that begins last before the
// block counts, up to where the next begins.
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
			return run{}, corrupt("an extent tree's node says that it is %d above the leaves and is %d", d, depth)
		}
	}
}

// depthOf checks a node's header and tells how many levels are below it.
func depthOf(node []byte) (int, error) {
	le := binary.LittleEndian
	magic, entries, depth := le.Uint16(node[0:]), int(le.Uint16(node[2:])), int(le.Uint16(node[6:]))
	if magic != extentMagic || entries > len(node)/extentSize-1 || depth > maxDepth {
		return 0, corrupt("an extent tree's node of %d entries, %d above the leaves, mark %#x", entries, depth, magic)
	}
	return depth, nil
}

// choose finds the entry for a block, nil if there is none, and where the next one begins.
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

// extent is the part of a leaf's entry from a block on.
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

// child reads the node that an entry of an inner node leads to.
func (fsys *FS) child(entry []byte) ([]byte, error) {
	le := binary.LittleEndian
	at := int64(le.Uint16(entry[8:]))<<32 | int64(le.Uint32(entry[4:]))
	if at == 0 || at >= fsys.blocks {
		return nil, corrupt("an extent tree's node at block %d", at)
	}
	node := make([]byte, fsys.blockSize)
	return node, fsys.readNear(node, at*fsys.blockSize)
}
