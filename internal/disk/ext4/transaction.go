package ext4

import "encoding/binary"

// A transaction consists of descriptor blocks, revoke blocks and a commit block. Each descriptor
// block is followed by the content that it describes.

// Flags of a tag in a descriptor block.
const (
	tagEscaped  = 1
	tagSameUUID = 2
	tagLast     = 8
)

// advance returns the journal block that is n blocks after another one. It wraps around at the end
// of the journal.
func (j *journal) advance(at, n uint32) uint32 {
	if at += n; at >= j.length {
		at -= j.length - j.first
	}
	return at
}

// tag is an entry of a descriptor block.
type tag struct {
	block    int64 // target block in the file system
	at       uint32
	escaped  bool
	checksum uint32
}

// walk reads the transactions and records those that are complete. It stops at the first block that
// does not belong to the next transaction. It also stops after one pass over the journal.
func (j *journal) walk() error {
	at, sequence := j.start, j.sequence
	var tags []tag
	var revoked []revokes
	block := make([]byte, j.fsys.blockSize)
	for visited := uint32(0); visited < j.length; visited++ {
		if err := j.read(block, at); err != nil {
			return err
		}
		be := binary.BigEndian
		if be.Uint32(block[0:]) != journalMagic || be.Uint32(block[8:]) != sequence {
			return nil
		}
		here := at
		at = j.advance(at, 1)
		switch be.Uint32(block[4:]) {
		case kindDescriptor:
			if !j.tailValid(block) {
				return nil
			}
			described, err := j.tags(block, at)
			if err != nil {
				return err
			}
			tags = append(tags, described...)
			if visited += uint32(len(described)); visited >= j.length {
				return nil
			}
			at = j.advance(at, uint32(len(described)))
		case kindRevoke:
			if !j.tailValid(block) {
				return nil
			}
			revoked = append(revoked, revokes{here, sequence})
		case kindCommit:
			if !j.commitValid(block) {
				return nil
			}
			if err := j.commit(tags, sequence); err != nil {
				return err
			}
			j.revokes = append(j.revokes, revoked...)
			tags, revoked = tags[:0], revoked[:0]
			sequence++
		default:
			return nil
		}
	}
	return nil
}

// tailValid verifies the checksum in the last 4 bytes of a block. If the journal has no checksums,
// it returns true.
func (j *journal) tailValid(block []byte) bool {
	if !j.checksums() {
		return true
	}
	body, tail := block[:len(block)-4], block[len(block)-4:]
	return checksum(checksum(j.seed, body), []byte{0, 0, 0, 0}) == binary.BigEndian.Uint32(tail)
}

func (j *journal) commitValid(block []byte) bool {
	if !j.checksums() {
		return true
	}
	const at = 0x10
	crc := checksum(checksum(j.seed, block[:at]), []byte{0, 0, 0, 0})
	return checksum(crc, block[at+4:]) == binary.BigEndian.Uint32(block[at:])
}

// tags parses a descriptor block. The parameter at is the journal block where the described content
// begins.
func (j *journal) tags(block []byte, at uint32) (tags []tag, err error) {
	be := binary.BigEndian
	size := 8
	switch {
	case j.features&journalChecksum3 != 0:
		size = 16
	case j.features&journalChecksum2 != 0:
		size = 10
	}
	if j.features&journal64 != 0 && size < 16 {
		size += 4
	}
	rest := block[journalHeader:]
	if j.checksums() {
		rest = rest[:len(rest)-4]
	}
	for len(rest) >= size {
		t := tag{block: int64(be.Uint32(rest)), at: at}
		var flags uint32
		high := rest[8:size]
		if size == 16 {
			flags, t.checksum = be.Uint32(rest[4:]), be.Uint32(rest[12:])
		} else {
			flags, t.checksum = uint32(be.Uint16(rest[6:])), uint32(be.Uint16(rest[4:]))
		}
		if j.features&journal64 != 0 {
			t.block |= int64(be.Uint32(high)) << 32
		}
		if t.block < 0 || t.block >= j.fsys.blocks {
			return nil, corrupt("the journal has content for block %d", t.block)
		}
		t.escaped = flags&tagEscaped != 0
		tags = append(tags, t)
		if flags&tagLast != 0 {
			break
		}
		at, rest = j.advance(at, 1), rest[size:]
		if flags&tagSameUUID == 0 {
			rest = rest[min(uuidSize, len(rest)):]
		}
	}
	return tags, nil
}

// commit records the content of a transaction's blocks. It replaces content from earlier
// transactions.
func (j *journal) commit(tags []tag, sequence uint32) error {
	for _, t := range tags {
		if err := j.verify(t, sequence); err != nil {
			return err
		}
		at, err := j.imageBlock(t.at)
		if err != nil {
			return err
		}
		j.blocks[t.block] = logged{at, sequence, t.escaped}
	}
	return nil
}

// verify verifies the checksum of a block's content. It does nothing if the journal has no
// checksums.
func (j *journal) verify(t tag, sequence uint32) error {
	if !j.checksums() {
		return nil
	}
	content := make([]byte, j.fsys.blockSize)
	if err := j.read(content, t.at); err != nil {
		return err
	}
	sum := checksum(checksum(j.seed, binary.BigEndian.AppendUint32(nil, sequence)), content)
	if j.features&journalChecksum3 == 0 {
		sum &= 0xffff
	}
	if sum != t.checksum {
		return corrupt("the journal has damaged content for block %d", t.block)
	}
	return nil
}

// revoke drops the journaled content of the blocks that a revoke block lists. It keeps content from
// transactions after the revoke block. The file system freed the listed blocks, and their current
// content might have bypassed the journal.
func (j *journal) revoke(r revokes) error {
	block := make([]byte, j.fsys.blockSize)
	if err := j.read(block, r.at); err != nil {
		return err
	}
	be := binary.BigEndian
	size, end := 4, len(block)
	if j.features&journal64 != 0 {
		size = 8
	}
	if j.checksums() {
		end -= 4
	}
	used := int(be.Uint32(block[journalHeader:]))
	if used > end || used < journalHeader+4 {
		return corrupt("a revoke block of %d bytes", used)
	}
	for rest := block[journalHeader+4 : used]; len(rest) >= size; rest = rest[size:] {
		number := int64(be.Uint32(rest))
		if size == 8 {
			number = int64(be.Uint64(rest))
		}
		// Transaction numbers wrap around.
		if last, found := j.blocks[number]; found && int32(last.sequence-r.sequence) <= 0 {
			delete(j.blocks, number)
		}
	}
	return nil
}
