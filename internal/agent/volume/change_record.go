package volume

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// The steps file has a header, the number of steps, the steps and a CRC-32. Each step consists of
// its kind, slot, new mode, old mode, path length and path. The kind is one byte. Numbers are
// varints. Steps of the kinds stepPlaced and stepPlacedFolder have their top before the path.
//
// Steps of the kinds stepReplace and stepRemove have, before the path, the size of the old entry
// plus 1, and its modification time in nanoseconds. If the entry is unknown, both are 0. The inode
// is missing because a copy of the volume has other inodes. Form 1 does not have these numbers.

const (
	recordForm    = "pyro change 2\n"
	oldRecordForm = "pyro change 1\n"
)

// ErrDamaged means that the steps of a change are unreadable.
var ErrDamaged = errors.New("the record of a change is damaged")

// write writes the steps file in the state planned.
func (c *change) write() error {
	if err := c.beforeWrite("record the steps"); err != nil {
		return err
	}
	fd, err := unix.Openat(int(c.dir.Fd()), statePlanned, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: statePlanned, Err: err}
	}
	c.state = statePlanned
	f := os.NewFile(uintptr(fd), statePlanned)
	err = writeSteps(f, c.steps)
	if err == nil && c.volume.fsKind == PassthroughFS {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func writeSteps(to io.Writer, steps []step) error {
	sum := crc32.NewIEEE()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 64<<10)
	w.WriteString(recordForm)
	var b []byte
	w.Write(binary.AppendUvarint(b, uint64(len(steps))))
	for i := range steps {
		s := &steps[i]
		b = append(b[:0], byte(s.kind))
		for _, n := range []uint64{uint64(s.slot), uint64(s.mode), uint64(s.before), uint64(len(s.path))} {
			b = binary.AppendUvarint(b, n)
		}
		if s.placed() {
			b = binary.AppendUvarint(b, uint64(s.top))
		}
		if s.replaces() {
			var size, modTime uint64
			if s.expected != nil {
				size, modTime = uint64(s.expected.size)+1, uint64(s.expected.modTime.Nano())
			}
			b = binary.AppendUvarint(binary.AppendUvarint(b, size), modTime)
		}
		w.Write(append(b, s.path...))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return binary.Write(to, binary.BigEndian, sum.Sum32())
}

// readSteps parses a steps file. Its content is untrusted.
func readSteps(from io.Reader) ([]step, error) {
	r := &checksumReader{from: bufio.NewReaderSize(from, 64<<10), sum: crc32.NewIEEE()}
	form := make([]byte, len(recordForm))
	if _, err := io.ReadFull(r, form); err != nil || string(form) != recordForm && string(form) != oldRecordForm {
		return nil, damaged(err)
	}
	count, err := binary.ReadUvarint(r)
	if err != nil || count > maxSteps {
		return nil, damaged(err)
	}
	var steps []step
	for range count {
		s, err := readStep(r, string(form) == oldRecordForm)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	want := r.sum.Sum32()
	var sum uint32
	if err := binary.Read(r.from, binary.BigEndian, &sum); err != nil || sum != want {
		return nil, damaged(err)
	}
	if _, err := r.from.ReadByte(); err != io.EOF {
		return nil, damaged(err)
	}
	return steps, nil
}

func readStep(r *checksumReader, old bool) (step, error) {
	var s step
	kind, err := r.ReadByte()
	if err != nil || kind == 0 || stepKind(kind) >= stepKinds {
		return s, damaged(err)
	}
	s.kind = stepKind(kind)
	var length uint64
	type number struct {
		most uint64
		to   func(uint64)
	}
	numbers := []number{
		{maxSteps, func(n uint64) { s.slot = uint32(n) }},
		{0o7777, func(n uint64) { s.mode = uint32(n) }},
		{0o7777, func(n uint64) { s.before = uint32(n) }},
		{listing.MaxPath, func(n uint64) { length = n }},
	}
	if s.placed() {
		numbers = append(numbers, number{maxSteps, func(n uint64) { s.top = uint32(n) }})
	}
	if s.replaces() && !old {
		numbers = append(numbers, number{math.MaxInt64, func(n uint64) {
			if n > 0 {
				s.expected = &stat{size: int64(n - 1)}
			}
		}}, number{math.MaxUint64, func(n uint64) {
			if s.expected != nil {
				s.expected.modTime = unix.NsecToTimespec(int64(n))
			}
		}})
	}
	for _, n := range numbers {
		v, err := binary.ReadUvarint(r)
		if err != nil || v > n.most {
			return s, damaged(err)
		}
		n.to(v)
	}
	path := make([]byte, length)
	if _, err := io.ReadFull(r, path); err != nil {
		return s, damaged(err)
	}
	s.path = string(path)
	if s.path == "" || CheckRelative(s.path) != nil {
		return s, ErrDamaged
	}
	return s, nil
}

func damaged(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrDamaged
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// checksumReader is a reader that computes a checksum.
type checksumReader struct {
	from *bufio.Reader
	sum  hash.Hash32
}

func (s *checksumReader) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.sum.Write(p[:n])
	return n, err
}

func (s *checksumReader) ReadByte() (byte, error) {
	b, err := s.from.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}
