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

// MaxNote is the maximum size of a note, in bytes. A note and its header must fit in a page.
const MaxNote = PageSize - headLen

// headLen is the size of an ELF note's header. The header consists of four-byte words: the length
// of the name, the length of the text, the type, and the name itself.
const headLen = 12 + 12

var noteName = []byte("VMCOREINFO\x00\x00")

// errNote reports that a memory contains no usable note.
var errNote = errors.New("the guest's kernel does not describe its memory layout")

// Find searches length bytes of a memory for notes, starting at an offset. The length and the
// offset must be multiples of the page size. Find calls the function found for each note. The
// argument is valid only during that call. There should be only one note.
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

// noteIn returns the text of the note at the start of a page, or nil if there is none.
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

// Kernel is the content of a note: the addresses and layouts of a kernel's data structures. The
// field tables is the address of the top page table. The field sections is the address of an array
// of pointers to section tables. The field page describes the descriptors of frames.
type Kernel struct {
	tables   uint64 // physical address
	levels   int    // number of levels
	sections uint64 // virtual address of the section pointers
	section  struct {
		size, perTable, memMap int64
		frames                 int64 // frames in a section
	}
	page     struct{ size, refcount, kind, private int64 } // size of a descriptor, and offsets of its fields
	buddy    uint32                                        // type of the first frame of a free block
	maxOrder int                                           // maximum order; a block has 1<<order frames
}

// textStart is the virtual address of the kernel's image before randomization (__START_KERNEL_map).
const textStart = 0xffffffff80000000

// Parse parses a note.
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
	// The pointers cover all physical memory that the kernel supports.
	p.number("LENGTH(mem_section)", 1<<max(p.number("NUMBER(MAX_PHYSMEM_BITS)", 36, 52)-bits, 0)/k.section.perTable, 1<<28)
	if p.err != nil {
		return nil, p.err
	}
	return k, nil
}

// parser parses the values of a note. The field err contains the first error.
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
