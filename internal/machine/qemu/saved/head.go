package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The form of a stream.
const (
	magic   = 0x5145564d
	version = 3

	kindEOF           = 0
	kindStart         = 1 // of a section
	kindPart          = 2
	kindEnd           = 3
	kindFull          = 4
	kindSubsection    = 5
	kindDescription   = 6
	kindConfiguration = 7
	kindFooter        = 0x7e

	flagZero     = 0x02 // of a record of memory; what is above are the bits of its address
	flagSizes    = 0x04
	flagPage     = 0x08
	flagEnd      = 0x10
	flagContinue = 0x20
	flagBits     = pageSize - 1
)

// Bounds of a head.
const (
	maxHead         = 16 << 20 // tables of a firmware, some hundred KiB
	maxBlocks       = 64
	maxCapabilities = 64
)

// ErrStream says that what came is no stream that can be kept. It is wrapped.
var ErrStream = errors.New("what QEMU said of its memory or devices can't be understood")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStream, fmt.Sprintf(format, args...))
}

// Head is what a stream begins with, up to the devices: which machine it is, and all of the memory that is not the machine's own, such as its firmware's tables, which do not
// change. The machine's memory has been left out.
type Head []byte

// ReadHead reads the head of a stream, of a QEMU with size bytes of memory which has left that out (x-ignore-shared): of a template, or what [Devices] made.
func ReadHead(from io.Reader, size int64) (Head, error) {
	r := &reader{in: bufio.NewReader(io.LimitReader(from, maxHead)), blocks: map[string]int64{}}
	head, err := r.head(size)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: %w", ErrStream, io.ErrUnexpectedEOF)
	case err != nil:
		return nil, err
	}
	return head, nil
}

// reader reads a head. What it has read is in seen.
type reader struct {
	in     *bufio.Reader
	seen   []byte
	blocks map[string]int64 // of memory, how long each is; but none of the machine's own
}

func (r *reader) bytes(n int) ([]byte, error) {
	at := len(r.seen)
	r.seen = append(r.seen, make([]byte, n)...)
	_, err := io.ReadFull(r.in, r.seen[at:])
	return r.seen[at:], err
}

func (r *reader) number() (uint32, error) {
	b, err := r.bytes(4)
	return binary.BigEndian.Uint32(b), err
}

func (r *reader) long() (uint64, error) {
	b, err := r.bytes(8)
	return binary.BigEndian.Uint64(b), err
}

// name reads a text with its length before it.
func (r *reader) name() (string, error) {
	n, err := r.bytes(1)
	if err != nil {
		return "", err
	}
	b, err := r.bytes(int(n[0]))
	return string(b), err
}

// expect reads a number that can only be one.
func (r *reader) expect(want uint32, what string) error {
	got, err := r.number()
	if err == nil && got != want {
		return malformed("%s is %#x, not %#x", what, got, want)
	}
	return err
}

// kind reads which of some kinds comes next.
func (r *reader) kind(where string, of ...byte) (byte, error) {
	b, err := r.bytes(1)
	if err == nil && !slices.Contains(of, b[0]) {
		err = malformed("%#x %s", b[0], where)
	}
	return b[0], err
}

func (r *reader) head(size int64) (Head, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	ram, err := r.number()
	if err != nil {
		return nil, err
	}
	if err := r.sizes(size); err != nil {
		return nil, err
	}
	for kind := byte(kindStart); ; {
		if err := r.records(); err != nil {
			return nil, err
		}
		if _, err := r.kind("where a section ends", kindFooter); err != nil {
			return nil, err
		}
		if err := r.expect(ram, "the end of a section"); err != nil {
			return nil, err
		}
		if kind == kindEnd {
			return r.seen, nil
		}
		if kind, err = r.kind("in the middle of its memory", kindPart, kindEnd); err != nil {
			return nil, err
		}
		if err := r.expect(ram, "a section in the middle of its memory"); err != nil {
			return nil, err
		}
	}
}

// begin reads what comes before the memory.
func (r *reader) begin() error {
	if err := r.expect(magic, "its mark"); err != nil {
		return err
	}
	if err := r.expect(version, "its version"); err != nil {
		return err
	}
	if _, err := r.kind("where it begins", kindConfiguration); err != nil {
		return err
	}
	n, err := r.number()
	if err == nil && n > 255 {
		err = malformed("the machine's type has %d bytes", n)
	}
	if err != nil {
		return err
	}
	if _, err := r.bytes(int(n)); err != nil {
		return err
	}
	kind, err := r.kind("before its memory", kindSubsection, kindStart)
	if err != nil || kind == kindStart {
		return err
	}
	if err := r.capabilities(); err != nil {
		return err
	}
	_, err = r.kind("before its memory", kindStart)
	return err
}

// capabilities reads what whoever reads the stream has to be able to.
func (r *reader) capabilities() error {
	name, err := r.name()
	if err == nil && name != "configuration/capabilities" {
		err = malformed("%q before its memory", name)
	}
	if err != nil {
		return err
	}
	if err := r.expect(1, "the version of its capabilities"); err != nil {
		return err
	}
	n, err := r.number()
	if err == nil && n > maxCapabilities {
		err = malformed("%d capabilities", n)
	}
	for ; err == nil && n > 0; n-- {
		_, err = r.name()
	}
	return err
}

// sizes reads which blocks there are.
func (r *reader) sizes(size int64) error {
	name, err := r.name()
	if err == nil && name != "ram" {
		err = malformed("it begins with %q", name)
	}
	if err != nil {
		return err
	}
	if _, err := r.bytes(8); err != nil { // which of them, and the version of what follows
		return err
	}
	word, err := r.long()
	if err != nil {
		return err
	}
	if word&flagBits != flagSizes {
		return malformed("the sizes of its memory are missing: %#x", word)
	}
	own := ""
	for left := int64(word &^ flagBits); left > 0; {
		name, err := r.name()
		if err != nil {
			return err
		}
		length, err := r.long()
		if err != nil {
			return err
		}
		if length > uint64(left) || length%pageSize != 0 || length == 0 || len(r.blocks) == maxBlocks || r.blocks[name] != 0 || name == own {
			return malformed("block %q of %d bytes", name, length)
		}
		if _, err := r.long(); err != nil { // its address
			return err
		}
		left -= int64(length)
		if int64(length) == size && own == "" {
			own = name
		} else {
			r.blocks[name] = int64(length)
		}
	}
	if own == "" {
		return malformed("none of its blocks has the machine's %d bytes", size)
	}
	return nil
}

// records reads pages until the end of a section.
func (r *reader) records() error {
	for block := ""; ; {
		word, err := r.long()
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
			if block, err = r.name(); err != nil {
				return err
			}
		}
		if at < 0 || at > r.blocks[block]-pageSize {
			return malformed("a page at %#x of no block that it may be of", at)
		}
		n := pageSize
		if flags&flagZero != 0 {
			n = 1
		}
		if _, err := r.bytes(n); err != nil {
			return err
		}
	}
}
