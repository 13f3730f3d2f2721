package ext4

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A file system that was not unmounted has its last changes in its journal: whole blocks, which whoever mounts it writes to their places first. Here they stay
// where they are, and are read instead of what is in their places.
//
// The format is that of https://docs.kernel.org/filesystems/ext4/journal.html, and what counts is what fs/jbd2/recovery.c makes of it. Numbers are big-endian.
// Checksums are verified here, as far as they tell where the journal ends: the last transaction may be only half there.

// maxJournal bounds the blocks of a journal, and so the memory that it takes: some 50 bytes for each.
const maxJournal = 1 << 18

// replayed has the blocks of the image whose content is in the journal.
type replayed map[int64]logged

// logged says where a block's content is.
type logged struct {
	at       int64  // block of the image
	sequence uint32 // of the transaction that it is from
	escaped  bool   // its first bytes were the magic number, and are zeros there
}

// Every block of the journal that is not content begins with this.
const journalMagic = 0xc03b3998

const (
	journalHeader   = 12 // bytes: magic, kind, number of the transaction
	kindDescriptor  = 1
	kindCommit      = 2
	kindSuperblock1 = 3
	kindSuperblock2 = 4
	kindRevoke      = 5
)

// Features of a journal that can't be ignored.
const (
	journalRevokes   = 0x1
	journal64        = 0x2
	journalAsync     = 0x4
	journalChecksum2 = 0x8
	journalChecksum3 = 0x10
	journalFast      = 0x20
	knownJournal     = journalRevokes | journal64 | journalChecksum2 | journalChecksum3
)

const uuidSize = 16

// journal is a journal that is being read.
type journal struct {
	fsys   *FS
	file   *inode
	length uint32 // blocks of the file
	first  uint32 // where transactions begin, and go on after the last block
	start  uint32 // where the oldest one is; 0 for none

	sequence uint32 // of the oldest transaction
	features uint32
	seed     uint32 // of checksums

	blocks  replayed
	revokes []revokes
}

// revokes is a block that says which blocks' content from before does not count.
type revokes struct {
	at       uint32
	sequence uint32
}

// replay reads the journal.
func (fsys *FS) replay() (replayed, error) {
	j := &journal{fsys: fsys, blocks: replayed{}}
	if err := j.open(); err != nil || j.start == 0 {
		return nil, err
	}
	if err := j.walk(); err != nil {
		return nil, err
	}
	for _, r := range j.revokes {
		if err := j.revoke(r); err != nil {
			return nil, err
		}
	}
	return j.blocks, nil
}

// open reads the journal's superblock.
func (j *journal) open() (err error) {
	if j.fsys.journal == 0 {
		return corrupt("it has changes in a journal, and no journal")
	}
	if j.file, err = j.fsys.anyInode(j.fsys.journal); err != nil {
		return err
	}
	if _, err := j.fsys.content(j.file); err != nil {
		return err
	}
	if j.file.size/j.fsys.blockSize > maxJournal {
		return unsupported(fmt.Sprintf("a journal of more than %d blocks", maxJournal))
	}
	block := make([]byte, j.fsys.blockSize)
	j.length = uint32(j.file.size / j.fsys.blockSize)
	if err := j.read(block, 0); err != nil {
		return err
	}
	be := binary.BigEndian
	kind, length := be.Uint32(block[0x4:]), be.Uint32(block[0x10:])
	if be.Uint32(block[0x0:]) != journalMagic || kind != kindSuperblock1 && kind != kindSuperblock2 {
		return corrupt("its journal has no superblock")
	}
	j.first, j.sequence, j.start = be.Uint32(block[0x14:]), be.Uint32(block[0x18:]), be.Uint32(block[0x1c:])
	if size := be.Uint32(block[0xc:]); int64(size) != j.fsys.blockSize || length > j.length || j.first == 0 || j.first >= length || j.start >= length {
		return corrupt("a journal of %d blocks of %d bytes, from %d on", length, size, j.start)
	}
	j.length = length
	if kind == kindSuperblock1 {
		return nil
	}
	j.features = be.Uint32(block[0x28:])
	if other := j.features &^ knownJournal; other != 0 {
		if other&journalFast != 0 {
			return unsupported("fast commits in its journal")
		}
		if other&journalAsync != 0 {
			return unsupported("a journal that is committed asynchronously")
		}
		return unsupported("a journal with features of the future")
	}
	j.seed = checksum(^uint32(0), block[0x30:0x30+uuidSize])
	return nil
}

// checksum goes on with a CRC-32C that is neither inverted before nor after, as Linux has it.
func checksum(crc uint32, b []byte) uint32 { return ^crc32.Update(^crc, castagnoli, b) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (j *journal) checksums() bool { return j.features&(journalChecksum2|journalChecksum3) != 0 }

// place is where a block of the journal is in the image.
func (j *journal) place(block uint32) (int64, error) {
	if block >= j.length {
		return 0, corrupt("its journal has no block %d", block)
	}
	r, err := j.fsys.find(j.file, int64(block))
	if err == nil && r.start == 0 {
		err = corrupt("its journal has a hole at block %d", block)
	}
	return r.start, err
}

// read reads a block of the journal.
func (j *journal) read(p []byte, block uint32) error {
	at, err := j.place(block)
	if err != nil {
		return err
	}
	return j.fsys.read(p, at*j.fsys.blockSize)
}
