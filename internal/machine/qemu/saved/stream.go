// Package saved writes down the memory and the devices of a running QEMU, as a file that a QEMU goes on from.
//
// What a QEMU sends of itself when it is told to migrate is read here ([Receive]): its memory, page by page and some pages several times, then what it knows of
// its devices. The file has the same form, so that a QEMU reads it by itself, but of the memory only what differs from a base, the file that the machine's memory
// was mapped from, and each page once: free memory, and what the machine never changed, takes no room, and images don't grow with how often a machine was saved.
// Each MiB of it has a checksum (internal/machine/record).
//
// The form is that of QEMU's migration streams, version 3 (https://www.qemu.org/docs/master/devel/migration/main.html). What is read may be sent by a QEMU that
// has been taken over: everything in it is bounded.
package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The form of a stream.
const (
	magic   = 0x5145564d
	version = 3

	kindStart         = 1 // of a section
	kindPart          = 2
	kindEnd           = 3
	kindFull          = 4
	kindConfiguration = 7
	kindFooter        = 0x7e

	flagZero     = 0x02 // of a record of memory; what is above are the bits of its address
	flagSizes    = 0x04
	flagPage     = 0x08
	flagEnd      = 0x10
	flagContinue = 0x20
	flagBits     = pageSize - 1

	pageSize = 4096
)

// Bounds of what a QEMU may send.
const (
	maxBlocks = 64
	maxSmall  = 64 << 20 // of all memory that is not the machine's: tables of its firmware, some hundred KiB
	maxTail   = 64 << 20 // of its devices, some ten KiB
	maxTurns  = 64       // how often all memory may come
)

// ErrStream says that what came is no stream that can be kept. It is wrapped.
var ErrStream = errors.New("QEMU sent what can't be understood of its memory")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStream, fmt.Sprintf(format, args...))
}

// block is one piece of a machine's memory.
type block struct {
	name   string
	length int64
	main   bool   // the machine's memory
	data   []byte // of the others, all that came
	came   []bool // which pages of it
}

// stream reads a stream.
type stream struct {
	in      *bufio.Reader
	machine string // its type
	ram     section
	blocks  []*block
	last    *block
	pages   int64 // that may still come
	page    func(b *block, at int64, data []byte) error
}

// readBuffer is how much is read of QEMU at once.
const readBuffer = 1 << 20

// newStream makes one of a machine with size bytes of memory.
func newStream(from io.Reader, size int64) *stream {
	return &stream{in: bufio.NewReaderSize(from, readBuffer), pages: maxTurns * (size + maxSmall) / pageSize}
}

// section is the section of a stream that holds the memory.
type section struct{ id, instance, version uint32 }

func (s *stream) bytes(n int) ([]byte, error) {
	b, err := s.in.Peek(n)
	if err != nil {
		return nil, cutShort(err)
	}
	s.in.Discard(n)
	return b, nil
}

// cutShort tells that the stream ended too early.
func cutShort(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: %w", ErrStream, io.ErrUnexpectedEOF)
	}
	return err
}

func (s *stream) byte() (byte, error) {
	b, err := s.in.ReadByte()
	if err != nil {
		return 0, cutShort(err)
	}
	return b, nil
}

func (s *stream) number() (uint32, error) {
	b, err := s.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b), nil
}

func (s *stream) long() (uint64, error) {
	b, err := s.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// name reads a text with its length before it.
func (s *stream) name() (string, error) {
	n, err := s.byte()
	if err != nil {
		return "", err
	}
	b, err := s.bytes(int(n))
	return string(b), err
}

// expect reads a number that can only be one.
func (s *stream) expect(want uint32, what string) error {
	got, err := s.number()
	if err == nil && got != want {
		return malformed("%s is %#x, not %#x", what, got, want)
	}
	return err
}

// head reads what comes before the first section.
func (s *stream) head() error {
	if err := s.expect(magic, "its mark"); err != nil {
		return err
	}
	if err := s.expect(version, "its version"); err != nil {
		return err
	}
	kind, err := s.byte()
	if err != nil {
		return err
	}
	if kind != kindConfiguration {
		return malformed("it begins with %#x", kind)
	}
	n, err := s.number()
	if err != nil {
		return err
	}
	if n > 255 {
		return malformed("the machine's type has %d bytes", n)
	}
	b, err := s.bytes(int(n))
	s.machine = string(b)
	return err
}

// memory reads all sections of the memory. begun is called once its blocks are known, before the first page.
func (s *stream) memory(size int64, begun func() error) error {
	for begins := false; ; {
		kind, err := s.byte()
		if err != nil {
			return err
		}
		id, err := s.number()
		if err != nil {
			return err
		}
		switch {
		case kind == kindStart && !begins:
			begins = true
			if err := s.start(id, size); err != nil {
				return err
			}
			if err := begun(); err != nil {
				return err
			}
		case (kind == kindPart || kind == kindEnd) && begins && id == s.ram.id:
			if err := s.records(); err != nil {
				return err
			}
		default:
			return malformed("a section of kind %#x and number %d in the middle of its memory", kind, id)
		}
		if err := s.footer(); err != nil {
			return err
		}
		if kind == kindEnd {
			return nil
		}
	}
}

func (s *stream) footer() error {
	kind, err := s.byte()
	if err != nil {
		return err
	}
	if kind != kindFooter {
		return malformed("a section ends with %#x", kind)
	}
	return s.expect(s.ram.id, "the end of a section")
}

// start reads the begin of the memory: which blocks there are.
func (s *stream) start(id uint32, size int64) error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if name != "ram" {
		return malformed("it begins with %q", name)
	}
	s.ram.id = id
	if s.ram.instance, err = s.number(); err != nil {
		return err
	}
	if s.ram.version, err = s.number(); err != nil {
		return err
	}
	word, err := s.long()
	if err != nil {
		return err
	}
	if word&flagBits != flagSizes {
		return malformed("the sizes of its memory are missing: %#x", word)
	}
	var small int64
	for left := int64(word &^ flagBits); left > 0; {
		b := &block{}
		if b.name, err = s.name(); err != nil {
			return err
		}
		length, err := s.long()
		if err != nil {
			return err
		}
		if length > uint64(left) || length%pageSize != 0 || length == 0 || len(s.blocks) == maxBlocks || s.find(b.name) != nil {
			return malformed("block %q of %d bytes", b.name, length)
		}
		b.length = int64(length)
		left -= b.length
		if b.length == size && !s.hasMain() {
			b.main = true
		} else if small += b.length; small > maxSmall {
			return malformed("block %q of %d bytes, and the machine has %d", b.name, length, size)
		} else {
			b.data, b.came = make([]byte, b.length), make([]bool, b.length/pageSize)
		}
		s.blocks = append(s.blocks, b)
	}
	if !s.hasMain() {
		return malformed("none of its blocks has the machine's %d bytes", size)
	}
	if word, err = s.long(); err == nil && word != flagEnd {
		err = malformed("%#x after the sizes of its memory", word)
	}
	return err
}

func (s *stream) find(name string) *block {
	for _, b := range s.blocks {
		if b.name == name {
			return b
		}
	}
	return nil
}

func (s *stream) hasMain() bool {
	for _, b := range s.blocks {
		if b.main {
			return true
		}
	}
	return false
}

// zeroPage is a page of zeros.
var zeroPage = make([]byte, pageSize)

// records reads pages until the end of a section.
func (s *stream) records() error {
	for {
		word, err := s.long()
		if err != nil {
			return err
		}
		flags, at := word&flagBits, int64(word&^flagBits)
		if flags == flagEnd && at == 0 {
			return nil
		}
		if kind := flags &^ flagContinue; kind != flagZero && kind != flagPage {
			return malformed("a record of kind %#x", flags)
		}
		if flags&flagContinue == 0 {
			name, err := s.name()
			if err != nil {
				return err
			}
			s.last = s.find(name)
		}
		if s.last == nil || at < 0 || at > s.last.length-pageSize {
			return malformed("a page at %#x of no known block", at)
		}
		if s.pages--; s.pages < 0 {
			return malformed("its memory comes again and again")
		}
		data := zeroPage
		if flags&flagPage != 0 {
			if data, err = s.bytes(pageSize); err != nil {
				return err
			}
		} else if fill, err := s.byte(); err != nil {
			return err
		} else if fill != 0 {
			return malformed("a page that is all %#x", fill)
		}
		if err := s.page(s.last, at, data); err != nil {
			return err
		}
	}
}

// tail reads what comes after the memory: all of the devices, whose form only QEMU knows.
func (s *stream) tail() ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(s.in, maxTail+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxTail:
		return nil, malformed("more than %d bytes of its devices", maxTail)
	case len(b) == 0 || b[0] != kindFull:
		return nil, malformed("nothing of its devices")
	}
	return b, nil
}
