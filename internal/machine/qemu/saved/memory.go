package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Memory is the memory of a machine. It is a private mapping of a file in the QEMU process.
type Memory struct {
	size    int64
	begin   int64    // address of the mapping
	content *os.File // /proc/PID/mem, the memory of the process by address
	marks   *os.File // /proc/PID/pagemap, which has eight bytes for each page
}

// OpenMemory finds the memory of a machine with size bytes. It calls the function open for files in
// /proc/PID.
func OpenMemory(open func(name string, flags int) (*os.File, error), size int64) (*Memory, error) {
	m := &Memory{size: size}
	if err := m.open(open); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Memory) open(open func(name string, flags int) (*os.File, error)) error {
	maps, err := open("maps", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer maps.Close()
	if m.begin, err = find(maps, m.size); err != nil {
		return err
	}
	if m.content, err = open("mem", os.O_RDWR); err != nil {
		return err
	}
	m.marks, err = open("pagemap", os.O_RDONLY)
	return err
}

// Close closes the files.
func (m *Memory) Close() {
	for _, f := range []*os.File{m.content, m.marks} {
		if f != nil {
			f.Close()
		}
	}
}

// errNoMapping means that a process has no mapping of the expected form, or more than one.
var errNoMapping = errors.New("the machine's memory is not where it was mapped")

// find returns the address of a private mapping of a whole file with this size. The kernel can list
// one mapping in several parts. The inode number can't identify the file, because some file systems
// report a different number here.
func find(maps io.Reader, size int64) (int64, error) {
	var at, next, file uint64 // start address, end address and inode of the current run of parts
	var found []uint64
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var begin, end, offset, inode uint64
		var access, device string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &begin, &end, &access, &offset, &device, &inode); err != nil {
			return 0, err
		}
		private := strings.HasSuffix(access, "p")
		switch {
		case private && file != 0 && inode == file && begin == next && offset == begin-at:
		case private && offset == 0:
			at, file = begin, inode
		default:
			file = 0
		}
		if next = end; file != 0 && next-at == uint64(size) {
			found = append(found, at)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, errNoMapping
	}
	return int64(found[0]), nil
}

// These constants are bits of /proc/PID/pagemap
// (https://docs.kernel.org/admin-guide/mm/pagemap.html).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61
)

// own reports whether the process has its own copy of a page, because it has written to the page.
func own(mark uint64) bool { return mark&(pagePresent|pageSwapped) != 0 && mark&pageOfFile == 0 }

// marksAtOnce is the number of pages that one read of pagemap covers.
const marksAtOnce = 16 << 10

// owned calls f for each run of pages that the process has copied. The runs are in order.
func (m *Memory) owned(f func(first, pages uint32) error) error {
	marks := make([]byte, marksAtOnce*8)
	var first, pages uint32
	for at := int64(0); at < m.size; at += marksAtOnce * pageSize {
		n := min(marksAtOnce, (m.size-at)/pageSize)
		if _, err := m.marks.ReadAt(marks[:n*8], (m.begin+at)/pageSize*8); err != nil {
			return err
		}
		for i := range n {
			switch {
			case own(binary.NativeEndian.Uint64(marks[i*8:])):
				if pages == 0 {
					first = uint32(at/pageSize + i)
				}
				pages++
				continue
			case pages == 0:
				continue
			}
			if err := f(first, pages); err != nil {
				return err
			}
			pages = 0
		}
	}
	if pages == 0 {
		return nil
	}
	return f(first, pages)
}

// ReadAt reads the machine's memory.
func (m *Memory) ReadAt(into []byte, offset int64) (int, error) {
	if offset < 0 || offset > m.size-int64(len(into)) {
		return 0, errors.New("it is not the machine's memory")
	}
	return m.content.ReadAt(into, m.begin+offset)
}

// read reads pages, starting at the page first.
func (m *Memory) read(first uint32, into []byte) error {
	_, err := m.ReadAt(into, int64(first)*pageSize)
	return err
}

// write writes pages, starting at the page first.
func (m *Memory) write(first uint32, from []byte) error {
	_, err := m.content.WriteAt(from, m.begin+int64(first)*pageSize)
	return err
}
