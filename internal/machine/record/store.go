package record

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Storer writes the blocks of a file in the background and computes their checksums.
type Storer struct {
	file   *os.File
	blocks chan []byte
	free   chan []byte // buffers for reuse
	done   chan struct{}
	failed atomic.Pointer[error]
	sums   Sums
	ended  bool
}

// ahead is the maximum number of blocks that wait to be written.
const ahead = 8

// NewStorer creates a Storer for an empty file. The caller MUST call End.
func NewStorer(file *os.File) *Storer {
	s := &Storer{file: file, blocks: make(chan []byte, ahead), free: make(chan []byte, ahead), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *Storer) run() {
	defer close(s.done)
	written, stored := make(chan int64, ahead), make(chan struct{})
	go func() {
		defer close(stored)
		s.store(written)
	}()
	for b := range s.blocks {
		if s.failed.Load() != nil {
			continue
		}
		if _, err := s.file.WriteAt(b, s.sums.Size); err != nil {
			s.failed.Store(&err)
			continue
		}
		s.sums.add(b)
		select {
		case s.free <- b:
		default:
		}
		written <- s.sums.Size
	}
	close(written)
	<-stored
}

// syncSize is the number of written bytes after which store makes the kernel write them to the
// disk.
const syncSize = 8 << 20

// store makes the kernel write to the disk while more blocks arrive. The final flush then takes
// little time. It can block until the disk is ready.
func (s *Storer) store(written <-chan int64) {
	begun := int64(0)
	for end := range written {
		if end-begun >= syncSize {
			unix.SyncFileRange(int(s.file.Fd()), begun, end-begun, unix.SYNC_FILE_RANGE_WRITE)
			begun = end
		}
	}
}

// Put queues the next block and takes ownership of b. All blocks except the last must have a size
// of BlockSize. An error is about an earlier block.
func (s *Storer) Put(b []byte) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	s.blocks <- b
	return nil
}

// Buffer returns a buffer of BlockSize bytes for the next block.
func (s *Storer) Buffer() []byte {
	select {
	case b := <-s.free:
		return b[:BlockSize]
	default:
		return make([]byte, BlockSize)
	}
}

// End waits until all writes are done. Idempotent.
func (s *Storer) End() {
	if !s.ended {
		s.ended = true
		close(s.blocks)
	}
	<-s.done
}

// Finish waits until all writes are done. It returns the checksums of all blocks.
func (s *Storer) Finish() (Sums, error) {
	s.End()
	if err := s.failed.Load(); err != nil {
		return Sums{}, *err
	}
	return s.sums, nil
}

// Store copies a stream to an empty file and computes the checksums. It does not flush the file. It
// fails if the stream has more than limit bytes.
func Store(to *os.File, from io.Reader, limit int64) (Sums, error) {
	s := NewStorer(to)
	defer s.End()
	for size := int64(0); ; {
		b := s.Buffer()
		n, err := io.ReadFull(from, b)
		if n > 0 {
			if size += int64(n); size > limit {
				return Sums{}, fault.Newf(fault.Exhausted, "the state of the machine has more than %d bytes", limit)
			}
			if err := s.Put(b[:n]); err != nil {
				return Sums{}, err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return s.Finish()
		default:
			return Sums{}, err
		}
	}
}
