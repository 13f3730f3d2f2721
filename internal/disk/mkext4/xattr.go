package mkext4

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// Extended attributes are stored after the inode and in a separate block, see
// https://docs.kernel.org/filesystems/ext4/attributes.html. In both places, sorted entries grow
// from the front and values grow from the back.

const (
	xattrMagic      = 0xea020000
	xattrEntry      = 16 // bytes before the name
	xattrInodeHead  = 4  // the magic number
	xattrBlockHead  = 32
	xattrInodeSpace = inodeSize - inodeXattrs - xattrInodeHead
	xattrBlockSpace = blockSize - xattrBlockHead
	xattrEnd        = 4 // number of zero bytes after the last entry
)

// xattrPrefixes contains prefixes that ext4 stores as an index. A prefix comes before any shorter
// prefix that it begins with.
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

// hash returns the hash of an entry. e2fsck checks this hash.
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

// xattrs contains the encoded attributes of a file.
type xattrs struct {
	inode []byte // stored after the inode
	block uint32 // block number, or 0 if there is no block
}

func (x xattrs) blocks() uint64 {
	if x.block == 0 {
		return 0
	}
	return 1
}

// writeXattrs stores attributes after the inode as long as they fit, beginning with the largest
// ones. It stores the other attributes in a block.
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
	for i, v := range []uint32{xattrMagic, 1 /* reference */, 1 /* block */} {
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
	return xattr{}, corrupt("%q is not a valid name of an extended attribute", short(name))
}

// packXattrs encodes entries and values. In a block, the offset of a value counts from the start of
// the block. After an inode it counts from the first entry. head is the distance between these two
// positions.
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
