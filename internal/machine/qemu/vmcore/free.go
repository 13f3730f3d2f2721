package vmcore

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Free tells which pages of a memory are free. It is good for as long as the guest stands still. It is not safe for use by several goroutines.
type Free struct {
	kernel *Kernel
	memory io.ReaderAt
	size   int64
	maps   []uint64 // the virtual address of the descriptors, less what comes before a section's first, by the section's number
	err    error    // why no more can be told

	chunk       int64  // whose frames are known, -1: none
	free        []bool // which of them are
	descriptors []byte
}

// Free begins to look which pages are free in a memory of size bytes, of the kernel that k is of.
func (k *Kernel) Free(memory io.ReaderAt, size int64) (*Free, error) {
	f := &Free{
		kernel: k, memory: memory, size: size, chunk: -1,
		free: make([]bool, k.chunk()), descriptors: make([]byte, k.chunk()*k.page.size),
	}
	if err := f.findMaps(); err != nil {
		return nil, err
	}
	return f, nil
}

// chunk is of how many frames the descriptors are read at once: no block of free ones reaches from one chunk into another.
func (k *Kernel) chunk() int64 { return 1 << k.maxOrder }

// What is in the word of a section: the address of its descriptors, and below it marks, of which the second says that it has some.
const (
	sectionHasMap = 1 << 1
	sectionMarks  = PageSize - 1
)

// findMaps finds where the descriptors of each section are. The kernel must know exactly the sections that the memory has: else it is not the one that the note was of, or the machine is not
// laid out as it is taken to be.
func (f *Free) findMaps() error {
	k := f.kernel
	last := frameOf(f.size/PageSize-1) / k.section.frames
	table := make([]byte, k.section.perTable*k.section.size)
	for number := int64(0); number <= last; number++ {
		in := number % k.section.perTable
		if in == 0 {
			pointer := make([]byte, 8)
			if err := f.read(k.sections+uint64(number/k.section.perTable*8), pointer); err != nil {
				return err
			}
			clear(table)
			if at := binary.LittleEndian.Uint64(pointer); at != 0 {
				if err := f.read(at, table); err != nil {
					return err
				}
			}
		}
		word := binary.LittleEndian.Uint64(table[in*k.section.size+k.section.memMap:])
		first := number * k.section.frames * PageSize
		inHole := first >= holeBegin && first+k.section.frames*PageSize <= holeEnd
		if known := word&sectionHasMap != 0; known == inHole {
			return fmt.Errorf("%w: section %d of its memory is %#x", errNote, number, word)
		}
		f.maps = append(f.maps, word&^sectionMarks)
	}
	return nil
}

// Page tells whether a page of the memory is free: not, where that can't be found out. It takes the least where pages are asked for in their order.
func (f *Free) Page(page uint32) bool {
	frame := frameOf(int64(page))
	if chunk := frame / f.kernel.chunk(); chunk != f.chunk {
		if f.err == nil {
			f.err = f.look(chunk)
		}
		if f.err != nil {
			clear(f.free)
		}
		f.chunk = chunk
	}
	return f.free[frame%f.kernel.chunk()]
}

// look reads the descriptors of a chunk.
func (f *Free) look(chunk int64) error {
	k := f.kernel
	first := chunk * k.chunk()
	base := f.maps[first/k.section.frames]
	if err := f.read(base+uint64(first*k.page.size), f.descriptors); err != nil {
		return err
	}
	clear(f.free)
	for i := int64(0); i < k.chunk(); {
		order, ok := k.block(f.descriptors[i*k.page.size:][:k.page.size])
		if n := int64(1) << order; ok && i%n == 0 {
			for j := range n {
				f.free[i+j] = true
			}
			i += n
		} else {
			i++
		}
	}
	return nil
}

// block tells whether a frame is the first of a free block, and the block's order.
func (k *Kernel) block(descriptor []byte) (order int, ok bool) {
	n := binary.LittleEndian.Uint64(descriptor[k.page.private:])
	if binary.LittleEndian.Uint32(descriptor[k.page.kind:]) != k.buddy || binary.LittleEndian.Uint32(descriptor[k.page.refcount:]) != 0 || n > uint64(k.maxOrder) {
		return 0, false
	}
	return int(n), true
}

// An entry of a page table (Intel's manual, volume 3, 4.5).
const (
	present   = 1 << 0
	large     = 1 << 7 // it maps memory itself, not a further table
	addressOf = 1<<52 - PageSize
)

// read reads what the kernel has at a virtual address, page by page or more at once.
func (f *Free) read(address uint64, into []byte) error {
	for len(into) > 0 {
		offset, n, err := f.translate(address)
		if err != nil {
			return err
		}
		n = min(n, int64(len(into)))
		if _, err := f.memory.ReadAt(into[:n], offset); err != nil {
			return err
		}
		address, into = address+uint64(n), into[n:]
	}
	return nil
}

// translate walks the page tables. n is how many bytes from there on lie one after the other.
func (f *Free) translate(address uint64) (offset, n int64, err error) {
	entry := f.kernel.tables
	for level := f.kernel.levels - 1; ; level-- {
		shift := 12 + 9*level
		table, ok := offsetOf(entry&addressOf, f.size)
		if !ok {
			break
		}
		word := make([]byte, 8)
		if _, err := f.memory.ReadAt(word, table+int64(address>>shift&511)*8); err != nil {
			return 0, 0, err
		}
		entry = binary.LittleEndian.Uint64(word)
		if entry&present == 0 {
			break
		}
		if level > 0 && (level > 2 || entry&large == 0) {
			continue
		}
		within := address & (1<<shift - 1)
		if offset, ok = offsetOf(entry&addressOf&^(1<<shift-1)+within, f.size); !ok {
			break
		}
		return offset, min(1<<shift-int64(within), f.size-offset), nil
	}
	return 0, 0, fmt.Errorf("%w: it has nothing at %#x", errNote, address)
}
