package saved

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// chunkSize is the number of bytes that one read returns. Most pages are read in order.
const chunkSize = 256 << 10

// Base is the file that QEMU mapped as a machine's memory. pyro reads the file instead of mapping
// it, because a truncated mapped file would crash pyro.
type Base struct {
	file  *os.File
	data  []bool // pages that are not in a hole
	bytes []byte // a chunk of the file
	at    int64  // offset of the chunk; -1 if no chunk was read yet
}

// OpenBase finds the holes in a file.
func OpenBase(file *os.File, size int64) (*Base, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != size {
		return nil, errors.New("the file that the machine's memory was mapped from has another size")
	}
	b := &Base{file: file, data: make([]bool, size/pageSize), bytes: make([]byte, chunkSize), at: -1}
	err = disk.Extents(file, func(offset, length int64) error {
		for page := offset / pageSize; page*pageSize < min(offset+length, size); page++ {
			b.data[page] = true
		}
		return nil
	})
	return b, err
}

// page returns the content of a page. The result is valid until the next call.
func (b *Base) page(number uint32) ([]byte, error) {
	if !b.data[number] {
		return zeroPage, nil
	}
	at := int64(number) * pageSize
	if begin := at / chunkSize * chunkSize; begin != b.at {
		n, err := b.file.ReadAt(b.bytes, begin)
		if err != nil && err != io.EOF {
			return nil, err
		}
		clear(b.bytes[n:])
		b.at = begin
	}
	return b.bytes[at-b.at:][:pageSize], nil
}

// same reports whether a page has the same content as in the base.
func (b *Base) same(number uint32, page []byte) (bool, error) {
	was, err := b.page(number)
	return err == nil && bytes.Equal(was, page), err
}
