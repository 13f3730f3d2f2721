package mkext4

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// Extended attributes, after https://docs.kernel.org/filesystems/ext4/attributes.html, lie behind the inode and in a block of their own. Both have entries
// from the front, sorted, and values from the back.

const (
	xattrMagic      = 0xea020000
	xattrEntry      = 16 // bytes before the name
	xattrInodeHead  = 4  // the magic number
	xattrBlockHead  = 32
	xattrInodeSpace = inodeSize - inodeXattrs - xattrInodeHead
	xattrBlockSpace = blockSize - xattrBlockHead
	xattrEnd        = 4 // zeros behind the last entry
)

// xattrPrefixes are those that are stored as a number, the longer ones before those they begin with.
var xattrPrefixes = []struct {
	prefix string
	index  byte
}{
	{"system.posix_acl_access", 2}, {"system.posix_acl_default", 3}, {"system.richacl", 8}, {"system.", 7}, {"user.", 1}, {"trusted.", 4}, {"security.", 6},
}

type xattr struct {
	index byte
	name  string
	value string
}

func (x xattr) size() int { return (xattrEntry+len(x.name)+3)&^3 + (len(x.value)+3)&^3 }

// hash is what e2fsck wants of an attribute.
func (x xattr) hash() (hash uint32) {
	for i := range len(x.name) {
		hash = hash<<5 ^ hash>>27 ^ uint32(x.name[i])
	}
	value := append([]byte(x.value), 0, 0, 0)
	for ; len(value) >= 4; value = value[4:] {
		hash = hash<<16 ^ hash>>16 ^ binary.LittleEndian.Uint32(value)
	}
	return hash
}

// xattrs are the attributes of a file, written.
type xattrs struct {
	inode []byte // what is behind the inode
	block uint32 // 0 for none
}

func (x xattrs) blocks() uint64 {
	if x.block == 0 {
		return 0
	}
	return 1
}

// writeXattrs puts attributes behind the inode while there is place, the larger ones first, and the rest into a block.
func (w *Writer) writeXattrs(attributes map[string]string) (written xattrs, err error) {
	if len(attributes) == 0 {
		return written, nil
	}
	var sorted, inside, outside []xattr
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		x, err := parseXattr(name, attributes[name])
		if err != nil {
			return written, err
		}
		sorted = append(sorted, x)
	}
	slices.SortStableFunc(sorted, func(a, b xattr) int { return cmp.Compare(b.size(), a.size()) })
	insideLeft, outsideLeft := xattrInodeSpace-xattrEnd, xattrBlockSpace-xattrEnd
	for _, x := range sorted {
		if x.size() <= insideLeft {
			inside, insideLeft = append(inside, x), insideLeft-x.size()
		} else {
			outside, outsideLeft = append(outside, x), outsideLeft-x.size()
		}
	}
	if outsideLeft < 0 {
		return written, corrupt("its extended attributes are too large")
	}
	if len(inside) > 0 {
		written.inode = binary.LittleEndian.AppendUint32(nil, xattrMagic)
		written.inode = append(written.inode, packXattrs(inside, xattrInodeSpace, 0)...)
	}
	if len(outside) == 0 {
		return written, nil
	}
	block := make([]byte, xattrBlockHead, blockSize)
	for i, v := range []uint32{xattrMagic, 1 /* inode has it */, 1 /* block */} {
		binary.LittleEndian.PutUint32(block[4*i:], v)
	}
	written.block, err = w.data.block(append(block, packXattrs(outside, xattrBlockSpace, xattrBlockHead)...))
	return written, err
}

func parseXattr(name, value string) (xattr, error) {
	for _, p := range xattrPrefixes {
		if rest, found := strings.CutPrefix(name, p.prefix); found {
			if whole := !strings.HasSuffix(p.prefix, "."); len(rest) > maxName || whole != (rest == "") || strings.IndexByte(rest, 0) >= 0 {
				break
			}
			return xattr{p.index, rest, value}, nil
		}
	}
	return xattr{}, corrupt("no extended attribute can have the name %q", short(name))
}

// packXattrs gives entries and values. Where a value is counts from the beginning of the block, or behind the inode from the first entry: head is how far away
// that is.
func packXattrs(attributes []xattr, space, head int) []byte {
	slices.SortFunc(attributes, func(a, b xattr) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	b := make([]byte, space)
	le := binary.LittleEndian
	entry, end := b, space
	for _, x := range attributes {
		end -= (len(x.value) + 3) &^ 3
		copy(b[end:], x.value)
		entry[0], entry[1] = byte(len(x.name)), x.index
		if len(x.value) > 0 {
			le.PutUint16(entry[2:], uint16(end+head))
		}
		le.PutUint32(entry[8:], uint32(len(x.value)))
		le.PutUint32(entry[12:], x.hash())
		copy(entry[xattrEntry:], x.name)
		entry = entry[(xattrEntry+len(x.name)+3)&^3:]
	}
	return b
}
