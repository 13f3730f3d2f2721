package ext4

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Limits for a directory, because the package reads each directory into memory as a whole.
const (
	maxDirectory = 128 << 20 // bytes
	maxEntries   = 1 << 20
)

// directory is the content of a directory, sorted by name.
type directory struct {
	number  uint32
	parent  uint32
	size    int64 // size in the image, in bytes
	entries []entry
}

type entry struct {
	name  string
	inode uint32
	alias bool // an earlier entry or the root has this inode; such a directory can't be entered
}

// readDirectory reads all blocks of a directory in order. Index blocks of a hash tree look like
// blocks with one deleted entry. Checksums look like deleted entries too. For the format see
// https://docs.kernel.org/filesystems/ext4/directory.html.
func (fsys *FS) readDirectory(node *inode) (*directory, error) {
	if node.size == 0 || node.size%fsys.blockSize != 0 {
		return nil, corrupt("a directory of %d bytes", node.size)
	}
	if node.size > maxDirectory {
		return nil, fmt.Errorf("the directory takes %d MiB, more than %d", node.size>>20, maxDirectory>>20)
	}
	content, err := fsys.content(node)
	if err != nil {
		return nil, err
	}
	dir := &directory{number: node.number, size: node.size}
	block := make([]byte, fsys.blockSize)
	for range node.size / fsys.blockSize {
		if _, err := io.ReadFull(content, block); err != nil {
			return nil, err
		}
		if err := dir.add(block); err != nil {
			return nil, err
		}
	}
	if dir.parent == 0 {
		return nil, corrupt("a directory without a parent")
	}
	dir.sort()
	return dir, nil
}

const entryHeader = 8 // bytes before the name

func (d *directory) add(block []byte) error {
	le := binary.LittleEndian
	for len(block) > 0 {
		if len(block) < entryHeader {
			return corrupt("a directory entry is truncated")
		}
		number, length, name := le.Uint32(block[0:]), int(le.Uint16(block[4:])), int(block[6])
		if (length == 0 || length == 1<<16-1) && len(block) == 1<<16 {
			length = 1 << 16 // 65536 does not fit into 16 bits.
		}
		if length < entryHeader+name || length%4 != 0 || length > len(block) {
			return corrupt("a directory entry of %d bytes with a name of %d", length, name)
		}
		if number != 0 {
			d.list(block[entryHeader:][:name], number)
		}
		if len(d.entries) > maxEntries {
			return fmt.Errorf("the directory has more than %d entries", maxEntries)
		}
		block = block[length:]
	}
	return nil
}

func (d *directory) list(name []byte, number uint32) {
	switch {
	case string(name) == "..":
		d.parent = cmp.Or(d.parent, number)
	case string(name) == "." || len(name) == 0 || bytes.ContainsAny(name, "/\x00"):
	default:
		d.entries = append(d.entries, entry{name: string(name), inode: number})
	}
}

func (d *directory) sort() {
	slices.SortStableFunc(d.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	d.entries = slices.CompactFunc(d.entries, func(a, b entry) bool { return a.name == b.name })
	seen := map[uint32]bool{rootInode: true}
	for i := range d.entries {
		e := &d.entries[i]
		e.alias = seen[e.inode]
		seen[e.inode] = true
	}
}

func (d *directory) find(name string) (entry, bool) {
	i, found := slices.BinarySearchFunc(d.entries, name, func(e entry, name string) int { return cmp.Compare(e.name, name) })
	if !found {
		return entry{}, false
	}
	return d.entries[i], true
}
