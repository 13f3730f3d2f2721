package saved

import (
	"bytes"
	"context"
	"os"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// Save writes the pages that differ from the base to a file. The memory must not change during the
// call. Save does not flush the file.
//
// Save leaves out pages for which the function free returns true. It calls free in the order of the
// pages. If free is nil, no page counts as free.
func Save(ctx context.Context, memory *Memory, base *Base, free func(page uint32) bool, file *os.File) (record.Sums, error) {
	if err := file.Truncate(0); err != nil {
		return record.Sums{}, err
	}
	w := &writer{ctx: ctx, memory: memory, base: base, out: record.NewStorer(file)}
	w.block = newBlock(w.out.Buffer())
	defer w.out.End()
	if err := memory.owned(w.without(free)); err != nil {
		return record.Sums{}, err
	}
	if !w.block.empty() {
		if err := w.out.Put(w.block.whole(true)); err != nil {
			return record.Sums{}, err
		}
	}
	return w.out.Finish()
}

// writer writes the changed pages of a memory.
type writer struct {
	ctx    context.Context
	memory *Memory
	base   *Base
	out    *record.Storer
	block  *block // block that is being filled
}

// zeroPage is a page of zeros.
var zeroPage = make([]byte, pageSize)

// without returns a function that calls take only for pages that are not free.
func (w *writer) without(free func(page uint32) bool) func(first, pages uint32) error {
	if free == nil {
		return w.take
	}
	return func(first, pages uint32) error {
		begin, end := first, first+pages
		for page := first; page < end; page++ {
			if !free(page) {
				continue
			}
			if err := w.take(begin, page-begin); err != nil {
				return err
			}
			begin = page + 1
		}
		return w.take(begin, end-begin)
	}
}

// take adds the pages that differ from the base.
func (w *writer) take(first, pages uint32) error {
	for pages > 0 {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		room := w.block.room()
		n := min(pages, uint32(len(room)/pageSize))
		room = room[:n*pageSize]
		if err := w.memory.read(first, room); err != nil {
			return err
		}
		for i := range n {
			// The list of zero pages can be full before the space for pages is full.
			if w.block.full() {
				n = i
				break
			}
			number, page := first+i, room[i*pageSize:][:pageSize]
			same, err := w.base.same(number, page)
			switch {
			case err != nil:
				return err
			case same:
			case bytes.Equal(page, zeroPage):
				w.block.zero(number)
			default:
				w.block.add(number, page)
			}
		}
		first, pages = first+n, pages-n
		if w.block.full() {
			if err := w.out.Put(w.block.whole(false)); err != nil {
				return err
			}
			w.block = newBlock(w.out.Buffer())
		}
	}
	return nil
}
