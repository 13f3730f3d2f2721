package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// These constants define the format of a stream.
const (
	magic   = 0x5145564d
	version = 3

	kindEOF           = 0
	kindStart         = 1 // kinds of sections
	kindPart          = 2
	kindEnd           = 3
	kindFull          = 4
	kindSubsection    = 5
	kindDescription   = 6
	kindConfiguration = 7
	kindFooter        = 0x7e

	flagZero     = 0x02 // flags of a memory record; the higher bits of the word are its address
	flagSizes    = 0x04
	flagPage     = 0x08
	flagEnd      = 0x10
	flagContinue = 0x20
	flagBits     = pageSize - 1
)

// These constants limit the size of a head.
const (
	maxHead         = 16 << 20 // bytes; the tables of a firmware have some hundred KiB
	maxBlocks       = 64
	maxCapabilities = 64
)

// ErrStream is the cause if a stream from QEMU can't be parsed.
var ErrStream = errors.New("the state that QEMU saved of its memory or devices can't be parsed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStream, fmt.Sprintf(format, args...))
}

// Head is the start of a stream, up to the state of the devices. It describes the machine. It
// contains all memory blocks except the machine's RAM, for example the constant tables of the
// firmware.
type Head []byte

// ReadHead reads the head of a stream. The stream comes from a template or from [Devices]. The
// machine has size bytes of RAM, which are not in the stream (x-ignore-shared).
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

// reader reads a head. The field seen contains all bytes that were read.
type reader struct {
	in     *bufio.Reader
	seen   []byte
	blocks map[string]int64 // sizes of the memory blocks, except the RAM
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

// name reads a length byte and a string of that length.
func (r *reader) name() (string, error) {
	n, err := r.bytes(1)
	if err != nil {
		return "", err
	}
	b, err := r.bytes(int(n[0]))
	return string(b), err
}

// expect reads a number and checks that it has the wanted value.
func (r *reader) expect(want uint32, what string) error {
	got, err := r.number()
	if err == nil && got != want {
		return malformed("%s is %#x, not %#x", what, got, want)
	}
	return err
}

// kind reads a byte and checks that it is one of the given values.
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

// begin reads everything before the memory section.
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

// capabilities reads the list of capabilities that a reader of the stream needs.
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

// sizes reads the list of memory blocks.
func (r *reader) sizes(size int64) error {
	name, err := r.name()
	if err == nil && name != "ram" {
		err = malformed("it begins with %q", name)
	}
	if err != nil {
		return err
	}
	if _, err := r.bytes(8); err != nil { // the number of the section's instance and the section's version
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
		if _, err := r.long(); err != nil { // the block's address
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

// records reads memory pages until the section ends.
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
			return malformed("a page at %#x of an unexpected block", at)
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
