package qcow2

import (
	"encoding/binary"
	"io"
	"sync"
)

// entry is the offset of a cluster in the layer's file, or one of the negative values below.
type entry int64

const (
	below entry = -1 // the content is in a lower layer
	zeros entry = -2
)

// Masks for the bits of L1 and L2 entries.
const (
	offsetMask    = 1<<56 - 1<<9
	copiedBit     = 1 << 63
	compressedBit = 1 << 62
	zeroBit       = 1 << 0
	l1Reserved    = ^uint64(offsetMask | copiedBit)
	l2Reserved    = ^uint64(offsetMask | copiedBit | compressedBit | zeroBit)
)

// entry returns the location of a disk offset in a layer. It also returns how many bytes, starting
// at offset, have the same kind of location. This number is at most length. If the location is in
// the layer's file, these bytes are contiguous in the file. The result does not extend beyond one
// L2 table.
func (d *Disk) entry(l *layer, offset, length int64) (entry, int64, error) {
	table, err := d.l2Table(l, offset)
	if err != nil {
		return 0, 0, err
	}
	inTable := l.covered() - offset%l.covered()
	if table == 0 {
		return below, min(length, inTable), nil
	}
	length = min(length, inTable)
	first, n := entry(0), int64(0)
	for n < length {
		at := offset + n
		e, err := d.clusterEntry(l, table, at)
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			first = e
		} else if follows := first >= 0 && e == first+entry(at/l.cluster()-offset/l.cluster())<<l.clusterBits; !follows && (e != first || e >= 0) {
			break
		}
		n = min(length, n+l.cluster()-at%l.cluster())
	}
	return first, n, nil
}

// l2Table returns the file offset of the L2 table that maps a disk offset, or 0 if there is none.
func (d *Disk) l2Table(l *layer, offset int64) (int64, error) {
	v, err := d.tables.number(l, l.l1+offset/l.covered()*8)
	if err != nil {
		return 0, err
	}
	if v&l1Reserved != 0 {
		return 0, corrupt("an L1 entry is %#x", v)
	}
	return l.clusterOffset(v)
}

func (d *Disk) clusterEntry(l *layer, table, offset int64) (entry, error) {
	v, err := d.tables.number(l, table+offset%l.covered()/l.cluster()*8)
	switch {
	case err != nil:
		return 0, err
	case v&compressedBit != 0:
		return 0, unsupported("compressed clusters")
	case v&l2Reserved != 0:
		return 0, corrupt("an L2 entry is %#x", v)
	case v&zeroBit != 0:
		return zeros, nil
	}
	at, err := l.clusterOffset(v)
	if at == 0 {
		return below, err
	}
	return entry(at), err
}

// clusterOffset returns the cluster offset that an L1 or L2 entry contains, after checking it.
func (l *layer) clusterOffset(v uint64) (int64, error) {
	at := int64(v & offsetMask)
	if at%l.cluster() != 0 || at >= l.end {
		return 0, corrupt("a cluster at %#x in a file of %#x bytes", at, l.end)
	}
	return at, nil
}

const (
	pieceSize = 4096
	maxPieces = 1024 // 4 MiB
)

// tables caches the most recently used pieces of L2 tables, at most 4 MiB. It does not cache whole
// tables, because the tables of one layer can occupy hundreds of MiB.
type tables struct {
	mu     sync.Mutex
	pieces map[pieceKey]*piece
	clock  uint64
}

type pieceKey struct {
	layer *layer
	at    int64
}

type piece struct {
	bytes [pieceSize]byte
	used  uint64
}

// number reads a 64-bit number at an offset of a layer's file. The offset is in a table. It fails
// if the offset is beyond the end of the file.
func (t *tables) number(l *layer, at int64) (uint64, error) {
	key := pieceKey{l, at / pieceSize * pieceSize}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	p := t.pieces[key]
	if p == nil {
		p = t.newPiece()
		n, err := l.file.ReadAt(p.bytes[:], key.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if int64(n) < at-key.at+8 {
			return 0, corrupt("a table extends beyond the end of the file")
		}
		clear(p.bytes[n:])
		t.pieces[key] = p
	}
	p.used = t.clock
	return binary.BigEndian.Uint64(p.bytes[at-key.at:]), nil
}

// newPiece returns an empty piece. If the cache is full, newPiece first drops old pieces: those
// whose last use is in the oldest quarter of the cached time span.
func (t *tables) newPiece() *piece {
	if t.pieces == nil {
		t.pieces = map[pieceKey]*piece{}
	}
	if len(t.pieces) < maxPieces {
		return new(piece)
	}
	oldest := t.clock
	for _, p := range t.pieces {
		oldest = min(oldest, p.used)
	}
	limit := oldest + (t.clock-oldest)/4
	for key, p := range t.pieces {
		if p.used <= limit {
			delete(t.pieces, key)
		}
	}
	return new(piece)
}
