package mkext4

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// A folder's content is blocks of entries, after https://docs.kernel.org/filesystems/ext4/directory.html. What has more than a block is a hash tree: its
// first block looks as if it had only the entries "." and "..", with the root behind them; nodes below it look empty; and the leaves are blocks of entries,
// each with the names of a stretch of hashes.

const (
	entryHead = 8 // bytes before a name
	treeRoot  = 32
	treeNode  = 8
	treeEntry = 8
	// Leaves are not filled, so that names can be added without splitting nearly all of them.
	leafFill = blockSize * 3 / 4
)

func entrySize(name string) int { return (entryHead + len(name) + 3) &^ 3 }

// writeFolder writes a folder, all of which is known.
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
		links = 1 // are no longer counted
	}
	e := f.entry
	return w.writeContent(f.number, &e, links, flags, int64(len(content)), bytes.NewReader(content), attributes)
}

// linear gives the one block of a small folder.
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

// filled makes the last entry of a block reach to its end.
func filled(b []byte, last int) []byte {
	rest := blockSize - last%blockSize
	binary.LittleEndian.PutUint16(b[last+4:], uint16(rest))
	return append(b, zeroBlock[:last+rest-len(b)]...)
}

// hashedName is a name with its place in the tree.
type hashedName struct {
	name
	hash, minor uint32
}

// below is a node of the tree, and the least hash in it.
type below struct {
	hash  uint32
	block uint32 // of the folder
}

// hashed gives the blocks of a folder that is a tree.
func (f *folder) hashed() ([]byte, error) {
	names := make([]hashedName, len(f.names))
	for i, n := range f.names {
		names[i].name = n
		names[i].hash, names[i].minor = hash(n.text)
	}
	slices.SortFunc(names, func(a, b hashedName) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.minor, b.minor), cmp.Compare(a.text, b.text))
	})
	content := make([]byte, blockSize) // the root's place
	content, leaves := appendLeaves(content, names)
	const limit, rootLimit = (blockSize - treeNode) / treeEntry, (blockSize - treeRoot) / treeEntry
	top, levels := leaves, byte(0)
	if len(leaves) > rootLimit {
		top, levels = nil, 1
		for ; len(leaves) > 0; leaves = leaves[min(limit, len(leaves)):] {
			part := leaves[:min(limit, len(leaves))]
			top = append(top, below{part[0].hash, uint32(len(content) / blockSize)})
			node := make([]byte, treeNode, blockSize)
			binary.LittleEndian.PutUint16(node[4:], blockSize)
			content = append(content, pad(appendIndex(node, part, limit))...)
		}
	}
	if len(top) > rootLimit {
		return nil, corrupt("a folder with %d names is too large", len(names))
	}
	root := appendEntry(nil, ".", f.node)
	root = filled(appendEntry(root, "..", f.parent.node), len(root))[:treeRoot]
	copy(root[treeRoot-8:], []byte{0, 0, 0, 0, hashVersion, 8 /* bytes of this */, levels, 0})
	copy(content, pad(appendIndex(root, top, rootLimit)))
	return content, nil
}

// appendLeaves adds the blocks with the names. Where names of one hash are in two of them, the second one says so in the lowest bit, which no hash has.
func appendLeaves(content []byte, names []hashedName) ([]byte, []below) {
	var leaves []below
	for i := 0; i < len(names); {
		at := below{names[i].hash, uint32(len(content) / blockSize)}
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

// appendIndex adds what a node of the tree says of those below it. The hash of the first one goes without saying, and its place tells their number.
func appendIndex(b []byte, nodes []below, limit int) []byte {
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
