package mkext4

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// A directory consists of blocks of entries, see
// https://docs.kernel.org/filesystems/ext4/directory.html. A directory that is larger than a block
// is a hash tree. Its first block contains the tree root. Readers without support for hash trees
// see only "." and ".." in that block, and no entries in index nodes. Leaves are blocks of entries,
// and each leaf covers a range of hashes.

const (
	entryHead = 8 // bytes before a name
	treeRoot  = 32
	treeNode  = 8
	treeEntry = 8
	// The writer leaves some space in each leaf, so that a few new names do not split almost every
	// leaf.
	leafFill = blockSize * 3 / 4
)

func entrySize(name string) int { return (entryHead + len(name) + 3) &^ 3 }

// writeFolder writes a directory. It must be called after the directory's last entry is added.
func (w *Writer) writeFolder(f *folder) error {
	attributes, err := w.writeXattrs(f.entry.Xattrs)
	if err != nil {
		return err
	}
	size := entrySize(".") + entrySize("..")
	for _, n := range f.names {
		size += entrySize(n.text)
	}
	var content []byte
	flags := uint32(0)
	if size <= blockSize {
		content = f.linear()
	} else if content, err = f.hashed(); err != nil {
		return err
	} else {
		flags = flagIndex
	}
	links := f.folders + 2
	if links > maxLinks {
		links = 1 // ext4 uses 1 for more links than maxLinks.
	}
	e := f.entry
	return w.writeContent(f.number, &e, links, flags, int64(len(content)), bytes.NewReader(content), attributes)
}

// linear returns the block of a small directory.
func (f *folder) linear() []byte {
	b := appendEntry(nil, ".", f.node)
	b = appendEntry(b, "..", f.parent.node)
	last := len(b) - entrySize("..")
	for _, n := range f.names {
		last = len(b)
		b = appendEntry(b, n.text, n.node)
	}
	return filled(b, last)
}

func appendEntry(b []byte, text string, n *node) []byte {
	end := len(b) + entrySize(text)
	b = binary.LittleEndian.AppendUint32(b, n.number)
	b = binary.LittleEndian.AppendUint16(b, uint16(entrySize(text)))
	b = append(b, byte(len(text)), n.kind)
	b = append(b, text...)
	return append(b, zeroBlock[:end-len(b)]...)
}

// filled extends the last entry of a block to the end of the block.
func filled(b []byte, last int) []byte {
	rest := blockSize - last%blockSize
	binary.LittleEndian.PutUint16(b[last+4:], uint16(rest))
	return append(b, zeroBlock[:last+rest-len(b)]...)
}

// hashedName is a name with its hash.
type hashedName struct {
	name
	hash, minor uint32
}

// indexEntry refers to a child of an index node. It contains the lowest hash in that child.
type indexEntry struct {
	hash  uint32
	block uint32 // block number within the directory
}

// hashed returns the blocks of a directory that is a hash tree.
func (f *folder) hashed() ([]byte, error) {
	names := make([]hashedName, len(f.names))
	for i, n := range f.names {
		names[i].name = n
		names[i].hash, names[i].minor = hash(n.text)
	}
	slices.SortFunc(names, func(a, b hashedName) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.minor, b.minor), cmp.Compare(a.text, b.text))
	})
	content := make([]byte, blockSize) // space for the root
	content, leaves := appendLeaves(content, names)
	const limit, rootLimit = (blockSize - treeNode) / treeEntry, (blockSize - treeRoot) / treeEntry
	top, levels := leaves, byte(0)
	if len(leaves) > rootLimit {
		top, levels = nil, 1
		for ; len(leaves) > 0; leaves = leaves[min(limit, len(leaves)):] {
			part := leaves[:min(limit, len(leaves))]
			top = append(top, indexEntry{part[0].hash, uint32(len(content) / blockSize)})
			node := make([]byte, treeNode, blockSize)
			binary.LittleEndian.PutUint16(node[4:], blockSize)
			content = append(content, pad(appendIndex(node, part, limit))...)
		}
	}
	if len(top) > rootLimit {
		return nil, corrupt("a directory with %d names is too large", len(names))
	}
	root := appendEntry(nil, ".", f.node)
	root = filled(appendEntry(root, "..", f.parent.node), len(root))[:treeRoot]
	copy(root[treeRoot-8:], []byte{0, 0, 0, 0, hashVersion, 8 /* bytes of this */, levels, 0})
	copy(content, pad(appendIndex(root, top, rootLimit)))
	return content, nil
}

// appendLeaves appends leaves that contain names. If names with equal hashes span two leaves, it
// sets the lowest bit in the hash of the second leaf. The hash of a name never has this bit.
func appendLeaves(content []byte, names []hashedName) ([]byte, []indexEntry) {
	var leaves []indexEntry
	for i := 0; i < len(names); {
		at := indexEntry{names[i].hash, uint32(len(content) / blockSize)}
		if i > 0 && names[i-1].hash == at.hash {
			at.hash |= 1
		}
		leaves = append(leaves, at)
		begin, last := len(content), 0
		for ; i < len(names) && len(content)-begin+entrySize(names[i].text) <= leafFill; i++ {
			last = len(content)
			content = appendEntry(content, names[i].text, names[i].node)
		}
		content = filled(content, last)
	}
	return content, leaves
}

// appendIndex appends the entries of an index node. The first entry contains the limit and the
// number of entries in place of a hash.
func appendIndex(b []byte, nodes []indexEntry, limit int) []byte {
	le := binary.LittleEndian
	for i, n := range nodes {
		if i == 0 {
			b = le.AppendUint16(b, uint16(limit))
			b = le.AppendUint16(b, uint16(len(nodes)))
		} else {
			b = le.AppendUint32(b, n.hash)
		}
		b = le.AppendUint32(b, n.block)
	}
	return b
}

func pad(b []byte) []byte { return append(b, zeroBlock[:blockSize-len(b)]...) }
