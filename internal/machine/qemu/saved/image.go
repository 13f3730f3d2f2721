package saved

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// Receive reads what a QEMU with size bytes of memory, mapped from base, sends of itself, to the end, and writes it into file, which is empty. Nothing is flushed.
// It returns early only with an error.
func Receive(from io.Reader, baseFile *os.File, size int64, file *os.File) (record.Sums, error) {
	b, err := openBase(baseFile, size)
	if err != nil {
		return record.Sums{}, err
	}
	w := &image{base: b, buffer: make([]byte, 0, record.BlockSize), slots: make([]int32, size/pageSize), zero: make([]bool, size/pageSize), out: record.NewStorer(file)}
	defer w.out.End()
	s := newStream(from, size)
	s.page = w.take
	if err := s.head(); err != nil {
		return record.Sums{}, err
	}
	if err := s.memory(size, func() error { return w.begin(s) }); err != nil {
		return record.Sums{}, err
	}
	tail, err := s.tail()
	if err != nil {
		return record.Sums{}, err
	}
	return w.finish(s, tail)
}

// recordSize is what a page takes in the file, with the word before it.
const recordSize = 8 + pageSize

// image is a file that is being written. It begins with what a stream begins with and the first page of the memory, whose record names the block that
// all that follow belong to; these all have one size. So the place of each is known, and one that comes again takes the place that it has.
type image struct {
	base   *base
	out    *record.Storer
	buffer []byte // what comes after all that has been given to be stored
	at     int64  // where that begins
	first  int64  // where the first page is
	others int64  // where the record of the second begins
	used   int32  // records after the first page's
	slots  []int32
	zero   []bool // pages that are zero, have no record, and are not zero in the base
}

// begin writes what comes before the pages.
func (w *image) begin(s *stream) error {
	b := binary.BigEndian.AppendUint32(nil, magic)
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, kindConfiguration)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.machine)))
	b = append(b, s.machine...)
	b = append(b, kindStart)
	b = binary.BigEndian.AppendUint32(b, s.ram.id)
	b = named(b, "ram")
	b = binary.BigEndian.AppendUint32(b, s.ram.instance)
	b = binary.BigEndian.AppendUint32(b, s.ram.version)
	var total int64
	for _, block := range s.blocks {
		total += block.length
	}
	b = binary.BigEndian.AppendUint64(b, uint64(total)|flagSizes)
	var main string
	for _, block := range s.blocks {
		b = named(b, block.name)
		b = binary.BigEndian.AppendUint64(b, uint64(block.length))
		if block.main {
			main = block.name
		}
	}
	b = s.ended(b)
	b = append(b, kindPart)
	b = binary.BigEndian.AppendUint32(b, s.ram.id)
	b = binary.BigEndian.AppendUint64(b, flagPage)
	b = named(b, main)
	w.first = int64(len(b))
	page, err := w.base.page(0)
	if err != nil {
		return err
	}
	w.others = w.first + pageSize
	return w.add(append(b, page...))
}

func named(b []byte, name string) []byte { return append(append(b, byte(len(name))), name...) }

// ended ends a section of the memory.
func (s *stream) ended(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, flagEnd)
	return binary.BigEndian.AppendUint32(append(b, kindFooter), s.ram.id)
}

// add appends to the file.
func (w *image) add(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), record.BlockSize-len(w.buffer))
		w.buffer = append(w.buffer, b[:n]...)
		b = b[n:]
		if len(w.buffer) == record.BlockSize {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush gives the buffer to be stored.
func (w *image) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	if err := w.out.Put(record.Piece{Offset: w.at, Bytes: w.buffer, Next: true}); err != nil {
		return err
	}
	w.at += int64(len(w.buffer))
	w.buffer = w.out.Empty()
	return nil
}

// replace changes what has been added before.
func (w *image) replace(offset int64, b []byte) error {
	if offset < w.at {
		n := min(int64(len(b)), w.at-offset)
		if err := w.out.Put(record.Piece{Offset: offset, Bytes: bytes.Clone(b[:n])}); err != nil {
			return err
		}
		offset, b = offset+n, b[n:]
	}
	if len(b) > 0 {
		copy(w.buffer[offset-w.at:], b)
	}
	return nil
}

// take takes a page of the machine.
func (w *image) take(b *block, at int64, data []byte) error {
	if !b.main {
		copy(b.data[at:], data)
		b.came[at/pageSize] = true
		return nil
	}
	page := at / pageSize
	if page == 0 {
		return w.replace(w.first, data)
	}
	if slot := w.slots[page]; slot > 0 {
		return w.replace(w.others+int64(slot-1)*recordSize+8, data)
	}
	same, err := w.base.same(at, data)
	if err != nil {
		return err
	}
	w.zero[page] = !same && isZero(data)
	if same || w.zero[page] {
		return nil
	}
	w.used++
	w.slots[page] = w.used
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], uint64(at)|flagPage|flagContinue)
	if err := w.add(word[:]); err != nil {
		return err
	}
	return w.add(data)
}

func isZero(page []byte) bool { return &page[0] == &zeroPage[0] || bytes.Equal(page, zeroPage) }

// finish writes what comes after the pages, and sums up what was changed since it was summed.
func (w *image) finish(s *stream, tail []byte) (record.Sums, error) {
	var b []byte
	for page, zero := range w.zero {
		if zero {
			b = append(binary.BigEndian.AppendUint64(b, uint64(page)*pageSize|flagZero|flagContinue), 0)
		}
	}
	for _, block := range s.blocks {
		flag := uint64(0)
		for page, came := range block.came {
			if !came {
				continue
			}
			b = binary.BigEndian.AppendUint64(b, uint64(page)*pageSize|flagPage|flag)
			if flag == 0 {
				b = named(b, block.name)
			}
			b = append(b, block.data[page*pageSize:][:pageSize]...)
			flag = flagContinue
		}
	}
	b = s.ended(b)
	b = append(b, kindEnd)
	b = binary.BigEndian.AppendUint32(b, s.ram.id)
	b = s.ended(b)
	if err := w.add(append(b, tail...)); err != nil {
		return record.Sums{}, err
	}
	if err := w.flush(); err != nil {
		return record.Sums{}, err
	}
	sums, err := w.out.Finish()
	return record.Sums{Size: w.at, CRC32C: sums}, err
}
