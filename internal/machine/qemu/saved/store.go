package saved

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// storer writes a file beside whoever makes it, block after block, and sums it up.
type storer struct {
	file   *os.File
	pieces chan piece
	free   chan []byte // buffers that have been written
	done   chan struct{}
	failed atomic.Pointer[error]
	sums   []uint32
	stale  map[int64]bool // blocks that have been changed since they were summed up
	ended  bool
}

// piece is something to write: the next block, or a change of what came before.
type piece struct {
	offset int64
	bytes  []byte
	next   bool
}

// ahead is how many pieces may wait to be written.
const ahead = 8

func newStorer(file *os.File) *storer {
	s := &storer{file: file, pieces: make(chan piece, ahead), free: make(chan []byte, ahead), done: make(chan struct{}), stale: map[int64]bool{}}
	go s.run()
	return s
}

func (s *storer) run() {
	defer close(s.done)
	for p := range s.pieces {
		if s.failed.Load() != nil {
			continue
		}
		if _, err := s.file.WriteAt(p.bytes, p.offset); err != nil {
			s.failed.Store(&err)
			continue
		}
		if !p.next {
			s.stale[p.offset/BlockSize], s.stale[(p.offset+int64(len(p.bytes))-1)/BlockSize] = true, true
			continue
		}
		// The host begins to store it at once: so little is left to do when the machine stands still.
		unix.SyncFileRange(int(s.file.Fd()), p.offset, int64(len(p.bytes)), unix.SYNC_FILE_RANGE_WRITE)
		s.sums = append(s.sums, sum(p.bytes))
		select {
		case s.free <- p.bytes[:0]:
		default:
		}
	}
}

// put has a piece written, which is the storer's from then on. The error is that of an earlier one.
func (s *storer) put(p piece) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	s.pieces <- p
	return nil
}

// empty gives a buffer for the next block.
func (s *storer) empty() []byte {
	select {
	case b := <-s.free:
		return b
	default:
		return make([]byte, 0, BlockSize)
	}
}

// end waits until nothing is written any more. Idempotent.
func (s *storer) end() {
	if !s.ended {
		s.ended = true
		close(s.pieces)
	}
	<-s.done
}

// finish writes what is left, and gives the sums of all blocks.
func (s *storer) finish() ([]uint32, error) {
	s.end()
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
