package saved

import (
	"encoding/binary"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// A saved memory file consists of independent blocks. The first page of a block is a table of
// 32-bit numbers in little-endian order:
//   - a count, then the numbers of the pages that follow the table, in order.
//   - a count, then that many pairs. A pair is the number of the first zero page and the number of
//     zero pages.
const (
	pageSize     = 4096
	pagesInBlock = record.BlockSize/pageSize - 1
	zerosInBlock = 256 // maximum number of pairs
)

// block is a block while it is being filled.
type block struct {
	bytes []byte
	pages []uint32
	zeros [][2]uint32
}

func newBlock(buffer []byte) *block { return &block{bytes: buffer} }

// room returns the space in the block for the next pages.
func (b *block) room() []byte { return b.bytes[(1+len(b.pages))*pageSize:] }

// add adds a page. The content can already be in that space. If other pages before it were not
// added, add moves the content.
func (b *block) add(number uint32, page []byte) {
	if room := b.room(); &room[0] != &page[0] {
		copy(room, page)
	}
	b.pages = append(b.pages, number)
}

// zero adds a zero page.
func (b *block) zero(number uint32) {
	if last := len(b.zeros) - 1; last >= 0 && b.zeros[last][0]+b.zeros[last][1] == number {
		b.zeros[last][1]++
		return
	}
	b.zeros = append(b.zeros, [2]uint32{number, 1})
}

func (b *block) full() bool { return len(b.pages) == pagesInBlock || len(b.zeros) == zerosInBlock }

func (b *block) empty() bool { return len(b.pages) == 0 && len(b.zeros) == 0 }

// whole returns the bytes of the block. All blocks of a file except the last must have a size of
// record.BlockSize.
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

// stretch is a run of consecutive pages.
type stretch struct {
	first, pages uint32
	content      []byte // nil if all pages are zero
}

// stretches parses a block. The machine's memory has size pages. The result ok is false if the
// block is malformed.
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
