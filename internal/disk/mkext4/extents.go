package mkext4

import "encoding/binary"

// extent is a range of file blocks that are adjacent in the image.
type extent struct {
	logical  uint32 // first block in the file
	physical uint32 // first block in the image
	count    uint16
}

// extents contains all blocks of a file, in file order.
type extents []extent

// maxExtent is the length of the largest extent, in blocks. A larger number would mean unwritten
// blocks.
const maxExtent = 32768

// add appends a block. Blocks must be added in file order.
func (e *extents) add(logical, physical uint32) {
	if n := len(*e); n > 0 {
		last := &(*e)[n-1]
		if count := uint32(last.count); count < maxExtent && last.logical+count == logical && last.physical+count == physical {
			last.count++
			return
		}
	}
	*e = append(*e, extent{logical, physical, 1})
}

func (e extents) blocks() (n uint64) {
	for _, x := range e {
		n += uint64(x.count)
	}
	return n
}

// Layout of extent tree nodes, see https://docs.kernel.org/filesystems/ext4/ifork.html#extent-tree.
// A node consists of a header and entries of 12 bytes each.
const (
	extentMagic   = 0xf30a
	extentSize    = 12
	rootExtents   = 4
	extentsInNode = blockSize/extentSize - 1
)

// tree writes the extent tree. It returns the root, and the number of nodes without the root.
func (e extents) tree(d *data) (root [60]byte, nodes uint64, err error) {
	le := binary.LittleEndian
	entries := make([][extentSize]byte, len(e))
	for i, x := range e {
		le.PutUint32(entries[i][0:], x.logical)
		le.PutUint16(entries[i][4:], x.count)
		le.PutUint32(entries[i][8:], x.physical)
	}
	depth := uint16(0)
	for ; len(entries) > rootExtents; depth++ {
		var above [][extentSize]byte
		for len(entries) > 0 {
			n := min(len(entries), extentsInNode)
			at, err := d.block(extentNode(entries[:n], extentsInNode, depth))
			if err != nil {
				return root, 0, err
			}
			var index [extentSize]byte
			copy(index[0:4], entries[0][0:4])
			le.PutUint32(index[4:], at)
			above, entries = append(above, index), entries[n:]
			nodes++
		}
		entries = above
	}
	copy(root[:], extentNode(entries, rootExtents, depth))
	return root, nodes, nil
}

func extentNode(entries [][extentSize]byte, limit, depth uint16) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, extentMagic)
	b = le.AppendUint16(b, uint16(len(entries)))
	b = le.AppendUint16(b, limit)
	b = le.AppendUint16(b, depth)
	b = le.AppendUint32(b, 0)
	for _, entry := range entries {
		b = append(b, entry[:]...)
	}
	return b
}
