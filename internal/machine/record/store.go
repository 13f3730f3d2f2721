package record

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Storer writes a file beside whoever makes it, block after block, and sums it up.
type Storer struct {
	file   *os.File
	pieces chan Piece
	free   chan []byte // buffers that have been written
	done   chan struct{}
	failed atomic.Pointer[error]
	sums   []uint32
	stale  map[int64]bool // blocks that have been changed since they were summed up
	ended  bool
}

// Piece is something to write: the next block, or a change of what came before.
type Piece struct {
	Offset int64
	Bytes  []byte
	Next   bool
}

// ahead is how many pieces may wait to be written.
const ahead = 8

// NewStorer makes one for a file that is empty. Whoever made it MUST call End.
func NewStorer(file *os.File) *Storer {
	s := &Storer{file: file, pieces: make(chan Piece, ahead), free: make(chan []byte, ahead), done: make(chan struct{}), stale: map[int64]bool{}}
	go s.run()
	return s
}

func (s *Storer) run() {
	defer close(s.done)
	for p := range s.pieces {
		if s.failed.Load() != nil {
			continue
		}
		if _, err := s.file.WriteAt(p.Bytes, p.Offset); err != nil {
			s.failed.Store(&err)
			continue
		}
		if !p.Next {
			s.stale[p.Offset/BlockSize], s.stale[(p.Offset+int64(len(p.Bytes))-1)/BlockSize] = true, true
			continue
		}
		// The host begins to store it at once: so little is left to do when the machine stands still.
		unix.SyncFileRange(int(s.file.Fd()), p.Offset, int64(len(p.Bytes)), unix.SYNC_FILE_RANGE_WRITE)
		s.sums = append(s.sums, sum(p.Bytes))
		select {
		case s.free <- p.Bytes[:0]:
		default:
		}
	}
}

// Put has a piece written, which is the Storer's from then on. The error is that of an earlier one.
func (s *Storer) Put(p Piece) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	s.pieces <- p
	return nil
}

// Empty gives a buffer for the next block.
func (s *Storer) Empty() []byte {
	select {
	case b := <-s.free:
		return b
	default:
		return make([]byte, 0, BlockSize)
	}
}

// End waits until nothing is written any more. Idempotent.
func (s *Storer) End() {
	if !s.ended {
		s.ended = true
		close(s.pieces)
	}
	<-s.done
}

// Finish writes what is left, and gives the sums of all blocks.
func (s *Storer) Finish() ([]uint32, error) {
	s.End()
	if err := s.failed.Load(); err != nil {
		return nil, *err
	}
	changed := make([]byte, BlockSize)
	for block := range s.stale {
		n, err := s.file.ReadAt(changed, block*BlockSize)
		if err != nil && err != io.EOF {
			return nil, err
		}
		s.sums[block] = sum(changed[:n])
	}
	return s.sums, nil
}

// Store writes what comes of a machine to a file, which is empty, as it comes, and sums it up. Nothing is flushed. More than limit bytes are refused.
func Store(to *os.File, from io.Reader, limit int64) (sums Sums, err error) {
	s := NewStorer(to)
	defer s.End()
	for {
		b := s.Empty()[:BlockSize]
		n, err := io.ReadFull(from, b)
		if n > 0 {
			if sums.Size+int64(n) > limit {
				return Sums{}, fault.New(fault.Exhausted, "", "", "what comes of the machine is more than %d bytes", limit)
			}
			if err := s.Put(Piece{sums.Size, b[:n], true}); err != nil {
				return Sums{}, err
			}
			sums.Size += int64(n)
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			sums.CRC32C, err = s.Finish()
			return sums, err
		default:
			return Sums{}, err
		}
	}
}
