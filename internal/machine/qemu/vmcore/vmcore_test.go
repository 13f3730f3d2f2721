package vmcore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// guest is the memory of a machine. It imitates a real kernel's layout as far as the tests need it.
type guest struct {
	size   int64
	pages  map[int64][]byte // content by page number
	levels int
	next   uint64 // physical address of the next allocation
}

// These constants are addresses in the guest and the size of a section.
const (
	vmemmap   = 0xffffea0000000000 // virtual: descriptors
	directMap = 0xffff888000000000 // virtual: all memory
	tables    = 16 << 20           // physical: top page table
	roots     = tables + PageSize  // physical: pointers to section tables
	table     = roots + PageSize   // physical: section table
	section   = 1 << 27            // bytes
)

// boot creates a guest. Large pages map the descriptors of every second section, and small pages
// map the others.
func boot(size int64, levels int) *guest {
	g := &guest{size: size, pages: map[int64][]byte{}, levels: levels, next: table + PageSize}
	g.put(g.entry(directMap, 2), 0|0xe3) // a page of 1 GiB
	g.put(roots, directMap+table)
	for at := int64(0); at <= (frameOf(size/PageSize-1))*PageSize; at += section {
		if at >= holeBegin && at < holeEnd {
			continue
		}
		number := uint64(at / section)
		g.put(table+number*16, vmemmap|0x1f)
		descriptors := vmemmap + number*2<<20
		if number%2 == 0 {
			g.put(g.entry(descriptors, 1), g.alloc(2<<20)|0xe3)
			continue
		}
		for page := uint64(0); page < 2<<20; page += PageSize {
			g.put(g.entry(descriptors+page, 0), g.alloc(PageSize)|0xe3)
		}
	}
	return g
}

func (g *guest) ReadAt(into []byte, offset int64) (int, error) {
	if offset < 0 || offset+int64(len(into)) > g.size {
		return 0, io.ErrUnexpectedEOF
	}
	for n := 0; n < len(into); {
		at := offset + int64(n)
		part := into[n:min(len(into), n+int(PageSize-at%PageSize))]
		if page := g.pages[at/PageSize]; page != nil {
			copy(part, page[at%PageSize:])
		} else {
			clear(part)
		}
		n += len(part)
	}
	return len(into), nil
}

// at returns the memory from a physical address to the end of its page.
func (g *guest) at(address uint64) []byte {
	offset, ok := offsetOf(address, g.size)
	if !ok {
		panic(fmt.Sprintf("%#x is no memory", address))
	}
	if g.pages[offset/PageSize] == nil {
		g.pages[offset/PageSize] = make([]byte, PageSize)
	}
	return g.pages[offset/PageSize][offset%PageSize:]
}

func (g *guest) put(address, word uint64) { binary.LittleEndian.PutUint64(g.at(address), word) }

func (g *guest) get(address uint64) uint64 { return binary.LittleEndian.Uint64(g.at(address)) }

// alloc allocates bytes. The address is a multiple of their number.
func (g *guest) alloc(bytes uint64) uint64 {
	at := (g.next + bytes - 1) / bytes * bytes
	g.next = at + bytes
	return at
}

// entry returns the address of the page table entry for a virtual address. It creates the page
// tables that are missing.
func (g *guest) entry(address uint64, level int) uint64 {
	in := uint64(tables)
	for l := g.levels - 1; ; l-- {
		at := in + address>>(12+9*l)&511*8
		if l == level {
			return at
		}
		if g.get(at) == 0 {
			g.put(at, g.alloc(PageSize)|0x63)
		}
		in = g.get(at) & addressOf
	}
}

// note returns those lines of Debian 12's note that the package uses.
func (g *guest) note() string {
	const base = -675282944
	return strings.Join([]string{
		"OSRELEASE=6.1.0-56-cloud-amd64", "PAGESIZE=4096",
		fmt.Sprintf("SYMBOL(mem_section)=%x", uint64(directMap+roots)), "LENGTH(mem_section)=131072", "SIZE(mem_section)=16", "OFFSET(mem_section.section_mem_map)=0",
		"NUMBER(SECTION_SIZE_BITS)=27", "NUMBER(MAX_PHYSMEM_BITS)=52",
		"SIZE(page)=64", "OFFSET(page._refcount)=52", "OFFSET(page._mapcount)=48", "OFFSET(page.private)=40",
		"LENGTH(zone.free_area)=11", "NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=-129", "NUMBER(sme_mask)=0",
		fmt.Sprintf("NUMBER(phys_base)=%d", base), fmt.Sprintf("SYMBOL(init_top_pgt)=%x", uint64(textStart+tables-base)), fmt.Sprintf("NUMBER(pgtable_l5_enabled)=%d", g.levels-4), "",
	}, "\n")
}

// release marks a block as free.
func (g *guest) release(frame int64, order uint64) { g.describe(frame, order, -129, 0) }

func (g *guest) describe(frame int64, private uint64, kind, references int32) {
	at := vmemmap + uint64(frame)*64
	address := g.get(g.entry(at, 1))&addressOf + at%(2<<20)
	if g.get(g.entry(at, 1))&large == 0 {
		address = g.get(g.entry(at, 0))&addressOf + at%PageSize
	}
	d := g.at(address)
	binary.LittleEndian.PutUint64(d[40:], private)
	binary.LittleEndian.PutUint32(d[48:], uint32(kind))
	binary.LittleEndian.PutUint32(d[52:], uint32(references))
}

func (g *guest) free(t testing.TB) *Free {
	t.Helper()
	k, err := Parse([]byte(g.note()))
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.Free(g, g.size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// all lists the free pages.
func all(f *Free) (pages []uint32) {
	for page := range uint32(f.size / PageSize) {
		if f.Page(page) {
			pages = append(pages, page)
		}
	}
	return pages
}

func block(first, pages uint32) (all []uint32) {
	for page := first; page < first+pages; page++ {
		all = append(all, page)
	}
	return all
}

// TestFree checks that Free finds blocks of all orders, below and above the hole, with four and
// five levels of page tables. It must not report other pages.
func TestFree(t *testing.T) {
	const above = holeEnd / PageSize // first frame above the hole; its page is at the offset 3 GiB
	for _, levels := range []int{4, 5} {
		g := boot(3500<<20, levels)
		g.release(0x2000, 0)
		g.release(0x2002, 1)
		g.release(0x8000, 10) // a block in the second section
		g.release(0xbfc00, 10)
		g.release(above, 3)
		g.release(above+0x8400, 10)
		g.describe(0x3000, 5, -1, 0)    // in use; the order field has another meaning
		g.describe(0x3400, 5, -129, 1)  // in use
		g.describe(0x3800, 11, -129, 0) // the order is above the maximum
		g.describe(0x3c01, 2, -129, 0)  // a block of four can't begin here
		want := slices.Concat(block(0x2000, 1), block(0x2002, 2), block(0x8000, 1024), block(0xbfc00, 1024), block(0xc0000, 8), block(0xc8400, 1024))
		if got := all(g.free(t)); !slices.Equal(got, want) {
			t.Errorf("with %d levels %d pages are free, not %d: %x", levels, len(got), len(want), got[:min(len(got), 20)])
		}
		f := g.free(t)
		for _, page := range []uint32{0xc8400, 0x2000, 0xc0000, 0x8000} { // the order of the calls must not matter
			if !f.Page(page) || f.Page(page-0x800) {
				t.Errorf("page %#x is not free, or %#x is", page, page-0x800)
			}
		}
	}
}

// TestAnotherKernel checks that Free fails if the note does not match the memory.
func TestAnotherKernel(t *testing.T) {
	for what, spoil := range map[string]func(g *guest) (note string){
		"no page tables":     func(g *guest) string { clear(g.at(tables)); return g.note() },
		"no sections":        func(g *guest) string { clear(g.at(roots)); return g.note() },
		"a section is gone":  func(g *guest) string { g.put(table+16, 0); return g.note() },
		"page tables beyond": func(g *guest) string { return strings.Replace(g.note(), "(phys_base)=-", "(phys_base)=", 1) },
		"more memory":        func(g *guest) string { g.size += section; return g.note() },
		"another hole":       func(g *guest) string { *g = *boot(3500<<20, 4); g.put(table+24*16, vmemmap|0x1f); return g.note() },
	} {
		g := boot(512<<20, 4)
		k, err := Parse([]byte(spoil(g)))
		if err != nil {
			t.Fatal(what, err)
		}
		if _, err := k.Free(g, g.size); !errors.Is(err, errNote) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestDescriptorsAreMissing checks that pages count as used from the first missing descriptor on.
func TestDescriptorsAreMissing(t *testing.T) {
	g := boot(512<<20, 5)
	g.release(0x6000, 10)
	g.release(0x10000, 10)
	g.put(g.entry(vmemmap+0x8000*64, 1), 0)
	if got := all(g.free(t)); !slices.Equal(got, block(0x6000, 1024)) {
		t.Errorf("%d pages are free", len(got))
	}
}

// TestNote checks that Find accepts a note only at the start of a page, and that Parse needs all of
// its lines.
func TestNote(t *testing.T) {
	g := boot(256<<20, 5)
	text := g.note()
	page := g.at(0x1234000)
	binary.LittleEndian.PutUint32(page, 11)
	binary.LittleEndian.PutUint32(page[4:], uint32(len(text)))
	copy(page[12:], "VMCOREINFO\x00\x00"+text)
	copy(g.at(0x1300010), page[:PageSize-16]) // not at the start of a page
	copy(g.at(0x1400000), page[:headLen])
	binary.LittleEndian.PutUint32(g.at(0x1400004), MaxNote+1)
	var found []string
	if err := Find(g, 0, g.size, func(note []byte) { found = append(found, string(note)) }); err != nil || !slices.Equal(found, []string{text}) {
		t.Fatalf("%q, %v", found, err)
	}
	if err := Find(g, 0x1235000, g.size-0x1235000, func([]byte) { t.Error("it is before that") }); err != nil {
		t.Error(err)
	}
	if err := Find(g, 0, g.size+PageSize, func([]byte) {}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if name == "OSRELEASE" {
			continue
		}
		for _, other := range []string{"", name + "=\n", name + "=-9223372036854775808\n", name + "=9223372036854775807x\n"} {
			note := strings.Join(slices.Replace(slices.Clone(lines), i, i+1, other), "")
			if k, err := Parse([]byte(note)); !errors.Is(err, errNote) || k != nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%q for %s: %v", other, name, err)
			}
		}
	}
}

// FuzzFree checks that Free terminates and reads only within its memory. The content of the memory
// is arbitrary.
func FuzzFree(f *testing.F) {
	g := boot(256<<20, 4)
	f.Add(g.note(), uint64(1))
	f.Add(boot(256<<20, 5).note(), uint64(2))
	f.Add(strings.Replace(g.note(), "SIZE(page)=64", "SIZE(page)=256", 1), uint64(3))
	f.Add(strings.Replace(g.note(), "SECTION_SIZE_BITS)=27", "SECTION_SIZE_BITS)=24", 1), uint64(4))
	f.Fuzz(func(t *testing.T, note string, seed uint64) {
		k, err := Parse([]byte(note))
		if err != nil {
			return
		}
		g := boot(256<<20, k.levels)
		random := rand.New(rand.NewPCG(seed, 0))
		// Some entries then point elsewhere.
		for _, page := range []uint64{tables, roots, table, g.entry(vmemmap, 1), g.entry(directMap, 2)} {
			for range random.IntN(4) {
				g.put(page/PageSize*PageSize+uint64(random.IntN(PageSize/8)*8), random.Uint64()>>random.IntN(64))
			}
		}
		free, err := k.Free(g, g.size)
		if err != nil {
			return
		}
		for page := uint32(0); page < uint32(g.size/PageSize); page += 61 {
			free.Page(page)
		}
	})
}

// FuzzNote parses pages with an arbitrary start.
func FuzzNote(f *testing.F) {
	f.Add([]byte("\x0b\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00VMCOREINFO\x00\x00A=1\n"))
	f.Fuzz(func(t *testing.T, begin []byte) {
		page := make([]byte, PageSize)
		copy(page, begin)
		if note := noteIn(page); note != nil && !bytes.Contains(page, note) {
			t.Error("it is not on the page")
		}
	})
}
