package saved

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// window is how much of a base is read at once. Pages come in the order of their addresses, mostly.
const window = 256 << 10

// base is the file that a machine's memory was mapped from. It is read, not mapped: whoever can cut it short must not be able to end pyro.
type base struct {
	file  *os.File
	data  []bool // which pages are not in a hole
	bytes []byte // a window of it
	at    int64  // where the window begins, -1 where there is none yet
}

func openBase(file *os.File, size int64) (*base, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != size {
		return nil, errors.New("the file that the machine's memory was mapped from has another size")
	}
	b := &base{file: file, data: make([]bool, size/pageSize), bytes: make([]byte, window), at: -1}
	err = disk.Extents(file, func(offset, length int64) error {
		for page := offset / pageSize; page*pageSize < min(offset+length, size); page++ {
			b.data[page] = true
		}
		return nil
	})
	return b, err
}

// page gives the page at an offset. It stands until the next is asked for.
func (b *base) page(at int64) ([]byte, error) {
	if !b.data[at/pageSize] {
		return zeroPage, nil
	}
	if begin := at / window * window; begin != b.at {
		n, err := b.file.ReadAt(b.bytes, begin)
		if err != nil && err != io.EOF {
			return nil, err
		}
		clear(b.bytes[n:])
		b.at = begin
	}
	return b.bytes[at-b.at:][:pageSize], nil
}

// same tells whether the base has a page.
func (b *base) same(at int64, data []byte) (bool, error) {
	if !b.data[at/pageSize] && &data[0] == &zeroPage[0] {
		return true, nil
	}
	page, err := b.page(at)
	return err == nil && bytes.Equal(page, data), err
}
