package vmcore

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Free finds the free pages in a guest's memory. It is valid only while the guest is paused. It is
// not safe for concurrent use.
type Free struct {
	kernel *Kernel
	memory io.ReaderAt
	size   int64
	maps   []uint64 // virtual address of frame 0's descriptor, extrapolated from each section's descriptors
	err    error    // why no more pages can be examined

	chunk       int64  // number of the chunk in free; -1 if none
	free        []bool // which frames of the chunk are free
	descriptors []byte
}

// Free prepares a search for free pages. The memory has size bytes, and the kernel k manages it.
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

// chunk is the number of frames in a chunk. The descriptors of a chunk are read with one call. No
// free block crosses the border of a chunk.
func (k *Kernel) chunk() int64 { return 1 << k.maxOrder }

// Each section has a word that combines the address of the section's descriptors with flags. The
// second flag says that the section has descriptors.
const (
	sectionHasMap = 1 << 1
	sectionMarks  = PageSize - 1
)

// findMaps finds the descriptors of each section. The kernel must have exactly the sections that
// the memory has. Otherwise the note belongs to another kernel, or the machine has another memory
// layout.
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

// Page reports whether a page is free. It returns false if that is unknown. It is fastest if the
// caller goes through the pages in order.
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

// look reads the descriptors of a chunk and records which frames are free.
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

// block reports whether a frame is the first frame of a free block. If so, order is the order of
// the block.
func (k *Kernel) block(descriptor []byte) (order int, ok bool) {
	n := binary.LittleEndian.Uint64(descriptor[k.page.private:])
	if binary.LittleEndian.Uint32(descriptor[k.page.kind:]) != k.buddy || binary.LittleEndian.Uint32(descriptor[k.page.refcount:]) != 0 || n > uint64(k.maxOrder) {
		return 0, false
	}
	return int(n), true
}

// These constants define a page table entry (Intel's manual, volume 3, 4.5).
const (
	present   = 1 << 0
	large     = 1 << 7 // the entry maps memory, not another table
	addressOf = 1<<52 - PageSize
)

// read reads memory at a virtual address. It translates each page or large page only once.
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

// translate translates a virtual address with the page tables. The result n is the number of
// contiguous bytes from there.
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
