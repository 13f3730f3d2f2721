package ext4

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// If a file system was not unmounted, its journal contains the last changes as whole blocks. The
// kernel would copy these blocks to their final locations before a mount. This package leaves them
// in the journal and reads them from there.
//
// For the format see https://docs.kernel.org/filesystems/ext4/journal.html, and for recovery
// fs/jbd2/recovery.c in Linux. Numbers are big-endian. The package verifies checksums only to find
// the end of the journal, because the last transaction might be incomplete.

// maxJournal limits the size of a journal, in blocks. Each block needs about 50 bytes of memory.
const maxJournal = 1 << 18

// replayed maps each journaled block of the file system to its latest content in the journal.
type replayed map[int64]logged

// logged is the location of a block's content in the journal.
type logged struct {
	at       int64  // block in the image
	sequence uint32 // number of the transaction that contains the block
	escaped  bool   // The block begins with journalMagic, which the journal replaces with zeros.
}

// journalMagic is at the start of every journal block that is not content of a file system block.
const journalMagic = 0xc03b3998

const (
	journalHeader   = 12 // bytes: magic, type, transaction number
	kindDescriptor  = 1
	kindCommit      = 2
	kindSuperblock1 = 3
	kindSuperblock2 = 4
	kindRevoke      = 5
)

// Incompatible features of a journal.
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

// journal is the state while the package reads a journal.
type journal struct {
	fsys   *FS
	file   *inode
	length uint32 // length of the journal in blocks
	first  uint32 // First block for transactions. The journal continues here after its last block.
	start  uint32 // first block of the oldest transaction, or 0 if there is none

	sequence uint32 // number of the oldest transaction
	features uint32
	seed     uint32 // initial value for checksums

	blocks  replayed
	revokes []revokes
}

// revokes locates a revoke block. A revoke block lists file system blocks whose earlier content in
// the journal is invalid.
type revokes struct {
	at       uint32
	sequence uint32
}

// replay reads the journal and returns the journaled blocks.
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

// open reads the superblock of the journal.
func (j *journal) open() (err error) {
	if j.fsys.journal == 0 {
		return corrupt("it needs recovery, but has no journal")
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
		return corrupt("the journal has no superblock")
	}
	j.first, j.sequence, j.start = be.Uint32(block[0x14:]), be.Uint32(block[0x18:]), be.Uint32(block[0x1c:])
	if size := be.Uint32(block[0xc:]); int64(size) != j.fsys.blockSize || length > j.length || j.first == 0 || j.first >= length || j.start >= length {
		return corrupt("a journal of %d blocks of %d bytes that starts at block %d", length, size, j.start)
	}
	j.length = length
	if kind == kindSuperblock1 {
		return nil
	}
	j.features = be.Uint32(block[0x28:])
	if other := j.features &^ knownJournal; other != 0 {
		if other&journalFast != 0 {
			return unsupported("fast commits in the journal")
		}
		if other&journalAsync != 0 {
			return unsupported("a journal that is committed asynchronously")
		}
		return unsupported("unknown features of the journal")
	}
	j.seed = checksum(^uint32(0), block[0x30:0x30+uuidSize])
	return nil
}

// checksum extends a CRC-32C. Like Linux, it does not invert the initial and final values.
func checksum(crc uint32, b []byte) uint32 { return ^crc32.Update(^crc, castagnoli, b) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (j *journal) checksums() bool { return j.features&(journalChecksum2|journalChecksum3) != 0 }

// imageBlock returns the image block that contains a block of the journal.
func (j *journal) imageBlock(block uint32) (int64, error) {
	if block >= j.length {
		return 0, corrupt("the journal has no block %d", block)
	}
	r, err := j.fsys.find(j.file, int64(block))
	if err == nil && r.start == 0 {
		err = corrupt("the journal has a hole at block %d", block)
	}
	return r.start, err
}

// read reads a block of the journal.
func (j *journal) read(p []byte, block uint32) error {
	at, err := j.imageBlock(block)
	if err != nil {
		return err
	}
	return j.fsys.read(p, at*j.fsys.blockSize)
}
