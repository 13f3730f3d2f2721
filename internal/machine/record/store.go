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
	blocks chan []byte
	free   chan []byte // buffers that have been written
	done   chan struct{}
	failed atomic.Pointer[error]
	sums   Sums
	ended  bool
}

// ahead is how many blocks may wait to be written.
const ahead = 8

// NewStorer makes one for a file that is empty. Whoever made it MUST call End.
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

// storedAtOnce is how much the host is given to store at once.
const storedAtOnce = 8 << 20

// store has the host begin to store what has been written so far, while more is written: so little is left to do in the end. It may wait for the disk.
func (s *Storer) store(written <-chan int64) {
	begun := int64(0)
	for end := range written {
		if end-begun >= storedAtOnce {
			unix.SyncFileRange(int(s.file.Fd()), begun, end-begun, unix.SYNC_FILE_RANGE_WRITE)
			begun = end
		}
	}
}

// Put has the next block written, which is the Storer's from then on. All but the last have BlockSize. The error is that of an earlier one.
func (s *Storer) Put(b []byte) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	s.blocks <- b
	return nil
}

// Buffer gives room for the next block.
func (s *Storer) Buffer() []byte {
	select {
	case b := <-s.free:
		return b[:BlockSize]
	default:
		return make([]byte, BlockSize)
	}
}

// End waits until nothing is written any more. Idempotent.
func (s *Storer) End() {
	if !s.ended {
		s.ended = true
		close(s.blocks)
	}
	<-s.done
}

// Finish writes what is left, and gives the sums of all that was written.
func (s *Storer) Finish() (Sums, error) {
	s.End()
	if err := s.failed.Load(); err != nil {
		return Sums{}, *err
	}
	return s.sums, nil
}

// Store writes what comes of a machine to a file, which is empty, as it comes, and sums it up. Nothing is flushed. More than limit bytes are refused.
func Store(to *os.File, from io.Reader, limit int64) (Sums, error) {
	s := NewStorer(to)
	defer s.End()
	for size := int64(0); ; {
		b := s.Buffer()
		n, err := io.ReadFull(from, b)
		if n > 0 {
			if size += int64(n); size > limit {
				return Sums{}, fault.Newf(fault.Exhausted, "what comes of the machine is more than %d bytes", limit)
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
