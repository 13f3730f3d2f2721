package ext4

import "sync"

// Lookups read adjacent metadata: the inodes of a directory's files are mostly in sequence, and so
// are directory blocks. The cache therefore reads and stores aligned pieces. It is direct-mapped: a
// piece replaces the previous piece in its slot. Pieces are small, so that reading a large inode
// table in random order causes only small reads.
const (
	pieceSize = 8 << 10 // bytes
	maxPieces = 512
)

type cache struct {
	mu     sync.Mutex
	pieces []piece
}

type piece struct {
	bytes []byte // nil if the slot is empty
	at    int64
}

// read fills p with the bytes that start at offset. To read a missing piece, it calls the function
// fill. The parameter end is the end of the file system, and no piece extends beyond it.
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
