package mkext4

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// writeJournal creates an empty journal. It writes only the first block of the journal.
func (w *Writer) writeJournal() error {
	e := Entry{Mode: unix.S_IFREG | 0o600, Accessed: w.id.Made, Modified: w.id.Made, Changed: w.id.Made}
	if err := w.inodes.put(journalInode, e.inode(1, int64(w.layout.journal)*blockSize, uint64(w.layout.journal), flagExtents, w.layout.journalExtents(), xattrs{})); err != nil {
		return err
	}
	b := make([]byte, blockSize)
	for i, v := range []uint32{0xc03b3998, 4 /* superblock */, 0, blockSize, w.layout.journal, 1 /* first block */, 1 /* sequence */, 0 /* empty */} {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	copy(b[0x30:], w.id.UUID[:])
	binary.BigEndian.PutUint32(b[0x40:], 1) // number of file systems that use the journal
	_, err := w.out.WriteAt(b, int64(w.layout.journalAt())*blockSize)
	return err
}

func (l layout) journalExtents() []byte {
	e := extents{{0, l.journalAt(), uint16(l.journal)}}
	root, _, _ := e.tree(nil) // the tree fits into the inode, so this writes nothing
	return root[:]
}

// writeGroups writes the bitmaps, group descriptors and superblocks. Their content depends on the
// allocated blocks and inodes. writeGroups does not write bitmaps that are all zero.
func (w *Writer) writeGroups() error {
	l, end, folders := w.layout, w.data.next(), make([]uint16, w.layout.groups)
	for _, f := range w.tree.folders {
		folders[(f.number-1)/groupInodes]++
	}
	var descriptors []byte
	le := binary.LittleEndian
	freeBlocks, freeInodes := uint32(0), uint32(0)
	for group := range l.groups {
		blocks, blocksLeft := l.blockBitmap(group, end)
		inodes, inodesLeft := inodeBitmap(group, w.inodes.last)
		for at, bitmap := range map[uint32][]byte{l.blockBitmapAt(group): blocks, l.inodeBitmapAt(group): inodes} {
			if bytes.Equal(bitmap, zeroBlock[:]) {
				continue
			}
			if _, err := w.out.WriteAt(bitmap, int64(at)*blockSize); err != nil {
				return err
			}
		}
		d := make([]byte, descriptorSize)
		le.PutUint32(d[0x0:], l.blockBitmapAt(group))
		le.PutUint32(d[0x4:], l.inodeBitmapAt(group))
		le.PutUint32(d[0x8:], l.inodeTableAt(group))
		le.PutUint16(d[0xc:], uint16(blocksLeft))
		le.PutUint16(d[0xe:], uint16(inodesLeft))
		le.PutUint16(d[0x10:], folders[group])
		descriptors = append(descriptors, d...)
		freeBlocks, freeInodes = freeBlocks+blocksLeft, freeInodes+inodesLeft
	}
	for group := min(copyGroup, l.groups-1); group >= 0; group-- {
		b := make([]byte, groupHead*blockSize)
		copy(b[blockSize:], descriptors)
		superblock := b[:1024]
		if group == 0 {
			superblock = b[1024:2048]
		}
		w.fillSuperblock(superblock, group, freeBlocks, freeInodes)
		if _, err := w.out.WriteAt(b, int64(group)*groupSize*blockSize); err != nil {
			return err
		}
	}
	return nil
}

// blockBitmap returns a group's bitmap of used blocks, and the number of its free blocks. Content
// uses the blocks before the block in the parameter end. Blocks beyond the file system count as
// used.
func (l layout) blockBitmap(group int, end uint32) (bitmap []byte, left uint32) {
	bitmap, left = make([]byte, blockSize), groupSize
	first := uint32(group) * groupSize
	use := func(from, to uint32) {
		for block := max(from, first); block < min(to, first+groupSize); block++ {
			if bit := block - first; bitmap[bit/8]&(1<<(bit%8)) == 0 {
				bitmap[bit/8] |= 1 << (bit % 8)
				left--
			}
		}
	}
	use(0, end)
	use(copyStart, copyStart+groupHead)
	use(l.blocks, uint32(l.groups)*groupSize)
	flex := group / flexGroups
	use(flexStart(flex), flexStart(flex)+l.flexHead(flex))
	return bitmap, left
}

// inodeBitmap returns a group's bitmap of used inodes, and the number of its free inodes. The
// parameter last is the number of the last used inode. Bits beyond the group's inodes count as
// used.
func inodeBitmap(group int, last uint32) (bitmap []byte, left uint32) {
	bitmap = make([]byte, blockSize)
	for i := range uint32(8 * blockSize) {
		switch {
		case i >= groupInodes || uint32(group)*groupInodes+i < last:
			bitmap[i/8] |= 1 << (i % 8)
		default:
			left++
		}
	}
	return bitmap, left
}

// Features, see https://docs.kernel.org/filesystems/ext4/super.html.
const (
	compatible   = 0x4 /* has_journal */ | 0x8 /* ext_attr */ | 0x20 /* dir_index */ | 0x200 /* sparse_super2 */
	incompatible = 0x2 /* filetype */ | 0x40 /* extents */ | 0x200                           /* flex_bg */
	readOnly     = 0x2 /* large_file */ | 0x8 /* huge_file */ | 0x20 /* dir_nlink */ | 0x40  /* extra_isize */
)

func (w *Writer) fillSuperblock(b []byte, group int, freeBlocks, freeInodes uint32) {
	le := binary.LittleEndian
	made := uint32(w.id.Made.Unix())
	for at, v := range map[int]uint32{
		0x0: w.layout.inodes(), 0x4: w.layout.blocks, 0xc: freeBlocks, 0x10: freeInodes, 0x18: 2 /* 1 KiB << 2 */, 0x1c: 2, 0x20: groupSize, 0x24: groupSize,
		0x28: groupInodes, 0x30: made /* written */, 0x40: made /* checked */, 0x4c: 1 /* revision */, 0x54: firstInode, 0x5c: compatible, 0x60: incompatible,
		0x64: readOnly, 0xe0: journalInode, 0x108: made, 0x160: hashUnsigned, 0x24c: uint32(min(copyGroup, w.layout.groups-1)), 0x268: firstInode, /* lost+found */
	} {
		le.PutUint32(b[at:], v)
	}
	for at, v := range map[int]uint16{
		0x36: 1<<16 - 1 /* mounts before a check: no limit */, 0x38: 0xef53, 0x3a: 1 /* clean */, 0x3c: 1 /* errors: go on */, 0x58: inodeSize,
		0x5a: uint16(group), 0x15c: extraSize, 0x15e: extraSize,
	} {
		le.PutUint16(b[at:], v)
	}
	copy(b[0x68:0x78], w.id.UUID[:])
	copy(b[0x78:0x88], w.id.Label)
	copy(b[0xec:0xfc], hashSeed[:])
	b[0xfc] = hashVersion
	b[0xfd] = 1 // type of the journal backup: a copy of the journal's block map
	copy(b[0x10c:], w.layout.journalExtents())
	le.PutUint32(b[0x148+4:], w.layout.journal*blockSize)
	b[0x174] = 4 // log2 of flexGroups
}
