package ext4

import "sync"

// What is read to find files lies together: the inodes of a folder's files mostly follow one another, and so do the blocks of folders. So they are read in
// pieces, which are kept. Each has one place, where another one that belongs there takes its turn: a walk that comes to the inodes of a large table in no order
// then costs a small read for each, and not a large one.
const (
	pieceSize = 8 << 10 // bytes
	maxPieces = 512
)

type cache struct {
	mu     sync.Mutex
	pieces []piece
}

type piece struct {
	bytes []byte // nil for none
	at    int64
}

// read fills p from an offset, by pieces that fill reads, none of which goes beyond end.
func (c *cache) read(p []byte, offset, end int64, fill func(p []byte, offset int64) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pieces == nil {
		c.pieces = make([]piece, maxPieces)
	}
	for len(p) > 0 {
		at := offset / pieceSize * pieceSize
		found := &c.pieces[at/pieceSize%maxPieces]
		if found.bytes == nil || found.at != at {
			room := found.bytes[:cap(found.bytes)]
			if room == nil {
				room = make([]byte, pieceSize)
			}
			*found = piece{at: at}
			room = room[:min(pieceSize, end-at)]
			if err := fill(room, at); err != nil {
				return err
			}
			found.bytes = room
		}
		n := copy(p, found.bytes[offset-at:])
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}
