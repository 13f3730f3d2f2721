package saved

import (
	"encoding/binary"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// A file of memory is blocks, each of which stands for itself. It begins with a page that tells which pages of the memory follow it, by their numbers, and which are zero:
//
//	n, n numbers of pages that follow, in their order; m, m pairs of the number of the first of some zero pages and how many these are
//
// all as 32 bits, the lowest first.
const (
	pageSize     = 4096
	pagesInBlock = record.BlockSize/pageSize - 1
	zerosInBlock = 256 // pairs
)

// block is one that is being made.
type block struct {
	bytes []byte
	pages []uint32
	zeros [][2]uint32
}

func newBlock(buffer []byte) *block { return &block{bytes: buffer} }

// room is where the next pages belong.
func (b *block) room() []byte { return b.bytes[(1+len(b.pages))*pageSize:] }

// add adds a page that is in the room, or behind pages there that were not added.
func (b *block) add(number uint32, page []byte) {
	if room := b.room(); &room[0] != &page[0] {
		copy(room, page)
	}
	b.pages = append(b.pages, number)
}

// zero adds a page of zeros.
func (b *block) zero(number uint32) {
	if last := len(b.zeros) - 1; last >= 0 && b.zeros[last][0]+b.zeros[last][1] == number {
		b.zeros[last][1]++
		return
	}
	b.zeros = append(b.zeros, [2]uint32{number, 1})
}

func (b *block) full() bool { return len(b.pages) == pagesInBlock || len(b.zeros) == zerosInBlock }

func (b *block) empty() bool { return len(b.pages) == 0 && len(b.zeros) == 0 }

// whole gives the block as it is written. All but the last of a file have to be of record.BlockSize.
func (b *block) whole(last bool) []byte {
	head := binary.LittleEndian.AppendUint32(b.bytes[:0], uint32(len(b.pages)))
	for _, number := range b.pages {
		head = binary.LittleEndian.AppendUint32(head, number)
	}
	head = binary.LittleEndian.AppendUint32(head, uint32(len(b.zeros)))
	for _, zeros := range b.zeros {
		head = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(head, zeros[0]), zeros[1])
	}
	clear(b.bytes[len(head):pageSize])
	end := (1 + len(b.pages)) * pageSize
	if last {
		return b.bytes[:end]
	}
	clear(b.bytes[end:])
	return b.bytes
}

// stretch is some pages of a memory one after the other.
type stretch struct {
	first, pages uint32
	content      []byte // nil: they are zero
}

// stretches gives what a block holds of a memory with so many pages; not ok: it is none.
func stretches(block []byte, size uint32) (all []stretch, ok bool) {
	if len(block) < pageSize {
		return nil, false
	}
	head, content := block[:pageSize], block[pageSize:]
	next := func() uint32 {
		n := binary.LittleEndian.Uint32(head)
		head = head[4:]
		return n
	}
	n := next()
	if n > pagesInBlock || int(n)*pageSize > len(content) {
		return nil, false
	}
	for range n {
		number := next()
		if number >= size {
			return nil, false
		}
		if last := len(all) - 1; last >= 0 && all[last].first+all[last].pages == number {
			all[last].pages++
			all[last].content = all[last].content[:len(all[last].content)+pageSize]
		} else {
			all = append(all, stretch{number, 1, content[:pageSize]})
		}
		content = content[pageSize:]
	}
	m := next()
	if m > zerosInBlock {
		return nil, false
	}
	for range m {
		first, pages := next(), next()
		if first >= size || pages > size-first {
			return nil, false
		}
		all = append(all, stretch{first, pages, nil})
	}
	return all, true
}
