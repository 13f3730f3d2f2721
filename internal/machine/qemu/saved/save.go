package saved

import (
	"bytes"
	"context"
	"os"

	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// Save writes down what of a memory differs from its base, each page once, into file, which becomes as long as that. Nothing changes the memory meanwhile. Nothing is flushed.
//
// Pages that are free, as free tells (nil: none is), are left out, whatever they hold. It is asked in the order of the pages.
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

// writer writes a memory down.
type writer struct {
	ctx    context.Context
	memory *Memory
	base   *Base
	out    *record.Storer
	block  *block // what has not been given to be written
}

// zeroPage is a page of zeros.
var zeroPage = make([]byte, pageSize)

// without takes pages that may differ from the base, but for those that are free.
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

// take takes pages that may differ from the base.
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
			// A block that is full of zeros takes no more pages, though it has room for them.
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
