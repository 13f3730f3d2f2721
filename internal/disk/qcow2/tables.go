package qcow2

import (
	"encoding/binary"
	"io"
	"sync"
)

// entry says where a cluster is: an offset in the layer's file, or one of these, which are no offsets of clusters.
type entry int64

const (
	below entry = -1 // in the layers below
	zeros entry = -2
)

// Bits of entries in the first table and in those of clusters.
const (
	offsetMask     = 1<<56 - 1<<9
	copiedBit      = 1 << 63
	compressedBit  = 1 << 62
	zeroBit        = 1 << 0
	firstReserved  = ^uint64(offsetMask | copiedBit)
	secondReserved = ^uint64(offsetMask | copiedBit | compressedBit | zeroBit)
)

// entry tells where a layer has what is at an offset, and for how many bytes from there on that goes on, no more than length: of clusters that are
// somewhere to their end or where the next one lies behind it, of others as far as one table tells.
func (d *Disk) entry(l *layer, offset, length int64) (entry, int64, error) {
	table, err := d.secondTable(l, offset)
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

// secondTable gives where the table for an offset is, 0 for nowhere.
func (d *Disk) secondTable(l *layer, offset int64) (int64, error) {
	v, err := d.tables.number(l, l.l1+offset/l.covered()*8)
	if err != nil {
		return 0, err
	}
	if v&firstReserved != 0 {
		return 0, corrupt("an entry of its first table is %#x", v)
	}
	return l.place(v)
}

func (d *Disk) clusterEntry(l *layer, table, offset int64) (entry, error) {
	v, err := d.tables.number(l, table+offset%l.covered()/l.cluster()*8)
	switch {
	case err != nil:
		return 0, err
	case v&compressedBit != 0:
		return 0, unsupported("compressed clusters")
	case v&secondReserved != 0:
		return 0, corrupt("an entry of a table is %#x", v)
	case v&zeroBit != 0:
		return zeros, nil
	}
	at, err := l.place(v)
	if at == 0 {
		return below, err
	}
	return entry(at), err
}

// place is the offset in an entry, of a cluster.
func (l *layer) place(v uint64) (int64, error) {
	at := int64(v & offsetMask)
	if at%l.cluster() != 0 || at >= l.end {
		return 0, corrupt("a cluster at %#x of %#x", at, l.end)
	}
	return at, nil
}

const (
	pieceSize = 4096
	maxPieces = 1024 // 4 MiB
)

// tables keeps the pieces of tables that were used last, as many as take 4 MiB: those of a layer alone can take hundreds.
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

// number reads a number of a layer's table. One beyond the end of the file is an error.
func (t *tables) number(l *layer, at int64) (uint64, error) {
	key := pieceKey{l, at / pieceSize * pieceSize}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	p := t.pieces[key]
	if p == nil {
		p = t.place()
		n, err := l.file.ReadAt(p.bytes[:], key.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if int64(n) < at-key.at+8 {
			return 0, corrupt("a table reaches beyond its end")
		}
		clear(p.bytes[n:])
		t.pieces[key] = p
	}
	p.used = t.clock
	return binary.BigEndian.Uint64(p.bytes[at-key.at:]), nil
}

// place gives a place for a piece: when there are enough, that of the oldest quarter is made free first.
func (t *tables) place() *piece {
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
