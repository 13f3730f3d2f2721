package vmcore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// MaxNote is how long a note may be: a page, less what is before its text.
const MaxNote = PageSize - headLen

// An ELF note: the lengths of its name and its text, its kind, and the name, in words of four bytes.
const headLen = 12 + 12

var noteName = []byte("VMCOREINFO\x00\x00")

// errNote says that a memory has no note that can be used. It is wrapped.
var errNote = errors.New("the guest's kernel does not tell how its memory is laid out")

// Find looks for the note of a kernel in what a memory holds from offset on for length bytes, which begins and ends with a page. found is called with each: there should be one alone.
// It stands until found returns.
func Find(memory io.ReaderAt, offset, length int64, found func(note []byte)) error {
	const window = 64 * PageSize
	bytesOf := make([]byte, window)
	for ; length > 0; offset, length = offset+window, length-window {
		part := bytesOf[:min(window, length)]
		if _, err := memory.ReadAt(part, offset); err != nil {
			return err
		}
		for ; len(part) >= PageSize; part = part[PageSize:] {
			if note := noteIn(part[:PageSize]); note != nil {
				found(note)
			}
		}
	}
	return nil
}

// noteIn gives the text of the note that a page begins with; nil: there is none.
func noteIn(page []byte) []byte {
	if binary.LittleEndian.Uint32(page) != uint32(len("VMCOREINFO\x00")) || !bytes.HasPrefix(page[12:], noteName) {
		return nil
	}
	n := binary.LittleEndian.Uint32(page[4:])
	if n == 0 || n > MaxNote {
		return nil
	}
	return page[headLen:][:n]
}

// Kernel is what a note says of a kernel: where things are in its memory, and how long they are.
type Kernel struct {
	tables   uint64 // physical address of its page tables
	levels   int    // of them
	sections uint64 // virtual address of the pointers to tables of sections
	section  struct {
		size, perTable, memMap int64
		frames                 int64 // of a section
	}
	page     struct{ size, refcount, kind, private int64 } // a frame's descriptor, and what of it is where
	buddy    uint32                                        // the kind of the first frame of a free block
	maxOrder int                                           // of a block, which has 1<<order frames
}

// textStart is the virtual address of the kernel's image, but for where it was put (__START_KERNEL_map).
const textStart = 0xffffffff80000000

// Parse reads a note.
func Parse(note []byte) (*Kernel, error) {
	p := &parser{values: map[string]string{}}
	for line := range strings.Lines(string(note)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			p.values[name] = value
		}
	}
	k := &Kernel{levels: 4}
	if p.number("NUMBER(pgtable_l5_enabled)", 0, 1) == 1 {
		k.levels = 5
	}
	k.tables = p.symbol("SYMBOL(init_top_pgt)") - textStart + uint64(p.number("NUMBER(phys_base)", -1<<52, 1<<52))
	k.sections = p.symbol("SYMBOL(mem_section)")
	k.section.size = p.number("SIZE(mem_section)", 8, 256)
	k.section.memMap = p.number("OFFSET(mem_section.section_mem_map)", 0, k.section.size-8)
	bits := p.number("NUMBER(SECTION_SIZE_BITS)", 24, 34)
	k.section.frames = 1 << bits / PageSize
	k.section.perTable = PageSize / max(k.section.size, 1)
	k.page.size = p.number("SIZE(page)", 32, 256)
	k.page.refcount = p.number("OFFSET(page._refcount)", 0, k.page.size-4)
	k.page.kind = p.number("OFFSET(page._mapcount)", 0, k.page.size-4)
	k.page.private = p.number("OFFSET(page.private)", 0, k.page.size-8)
	k.buddy = uint32(p.number("NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)", -1<<31, -1))
	k.maxOrder = int(p.number("LENGTH(zone.free_area)", 2, 13)) - 1
	p.number("PAGESIZE", PageSize, PageSize)
	p.number("NUMBER(sme_mask)", 0, 0)
	// The tables of sections are found by pointers, as many as all memory that there may be needs.
	p.number("LENGTH(mem_section)", 1<<max(p.number("NUMBER(MAX_PHYSMEM_BITS)", 36, 52)-bits, 0)/k.section.perTable, 1<<28)
	if p.err != nil {
		return nil, p.err
	}
	return k, nil
}

// parser takes values from a note. The first error sticks.
type parser struct {
	values map[string]string
	err    error
}

func (p *parser) fail(name string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s is %q", errNote, name, p.values[name])
	}
}

func (p *parser) number(name string, least, most int64) int64 {
	n, err := strconv.ParseInt(p.values[name], 10, 64)
	if err != nil || n < least || n > most {
		p.fail(name)
		return max(least, 0)
	}
	return n
}

func (p *parser) symbol(name string) uint64 {
	n, err := strconv.ParseUint(p.values[name], 16, 64)
	if err != nil {
		p.fail(name)
	}
	return n
}
