package mkext4

import "encoding/binary"

// extent is blocks of a file that lie one after the other.
type extent struct {
	logical  uint32 // the first of them in the file
	physical uint32 // in the image
	count    uint16
}

// extents are all blocks of a file.
type extents []extent

// maxExtent is the most blocks of an extent: longer ones would count as not yet written.
const maxExtent = 32768

// add enters a block. Blocks come in their order in the file.
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

// The nodes of an extent tree, after https://docs.kernel.org/filesystems/ext4/ifork.html#extent-tree: a header and entries, 12 bytes each.
const (
	extentMagic   = 0xf30a
	extentSize    = 12
	rootExtents   = 4
	extentsInNode = blockSize/extentSize - 1
)

// tree gives the root of the tree for the extents, and writes the nodes below it, of which it tells the number.
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
