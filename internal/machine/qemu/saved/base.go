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

// Base is the file that a machine's memory was mapped from. It is read, not mapped: whoever can cut it short must not be able to end pyro.
type Base struct {
	file  *os.File
	data  []bool // which pages are not in a hole
	bytes []byte // a window of it
	at    int64  // where the window begins, -1 where there is none yet
}

// OpenBase looks where the file has data.
func OpenBase(file *os.File, size int64) (*Base, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != size {
		return nil, errors.New("the file that the machine's memory was mapped from has another size")
	}
	b := &Base{file: file, data: make([]bool, size/pageSize), bytes: make([]byte, window), at: -1}
	err = disk.Extents(file, func(offset, length int64) error {
		for page := offset / pageSize; page*pageSize < min(offset+length, size); page++ {
			b.data[page] = true
		}
		return nil
	})
	return b, err
}

// page gives a page. It stands until the next is asked for.
func (b *Base) page(number uint32) ([]byte, error) {
	if !b.data[number] {
		return zeroPage, nil
	}
	at := int64(number) * pageSize
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

// same tells whether the base has that for a page.
func (b *Base) same(number uint32, page []byte) (bool, error) {
	was, err := b.page(number)
	return err == nil && bytes.Equal(was, page), err
}
