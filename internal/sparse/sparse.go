// Package sparse keeps the holes of files. It finds the data of sparse files, leaves out blocks of
// zeros when content is written, and encodes the places of data for tar archives.
package sparse

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

// Block is the size of the smallest hole, in bytes. Holes begin and end at multiples of it.
const Block = 4 << 10

// maxRanges limits the ranges of a file. After maxRanges ranges, the rest of the file counts as
// data.
const maxRanges = 8 << 10

// Range is a part of a file that has data, in bytes.
type Range struct{ At, Length int64 }

// Ranges are the parts of a file that have data, in order and without overlaps.
type Ranges []Range

// Bytes returns the total length.
func (r Ranges) Bytes() (n int64) {
	for _, one := range r {
		n += one.Length
	}
	return n
}

// add appends a range.
func (r *Ranges) add(at, end int64) {
	if last := len(*r) - 1; last >= 0 && ((*r)[last].At+(*r)[last].Length == at || last+1 >= maxRanges) {
		(*r)[last].Length = end - (*r)[last].At
		return
	}
	*r = append(*r, Range{at, end - at})
}

// Of returns the data of an open file, whose state is st. holes is false if the file has no holes.
// The file system of gVisor does not report holes. So Of searches large files that have many zeros.
// Of changes the offset of the descriptor.
func Of(fd int, st *unix.Stat_t) (data Ranges, holes bool, err error) {
	if st.Blocks*512 >= st.Size || st.Size <= Block {
		return search(fd, st.Size)
	}
	for at := int64(0); at < st.Size; {
		begin, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // the rest is a hole
			break
		}
		if err != nil {
			return nil, false, seekError(err)
		}
		end, err := unix.Seek(fd, begin, unix.SEEK_HOLE)
		if err == unix.ENXIO { // the file has become shorter
			end, err = st.Size, nil
		}
		if err != nil {
			return nil, false, seekError(err)
		}
		if begin >= st.Size {
			break
		}
		data.add(begin, min(end, st.Size))
		at = end
	}
	return data, data.Bytes() < st.Size, nil
}

// A file is searched for zeros if it has at least 16 MiB and a quarter of its sampled blocks are
// zeros.
const (
	scanned = 16 << 20
	samples = 64
)

// search finds the data of a file by reading it, unless the file seems to have few zeros.
func search(fd int, size int64) (data Ranges, holes bool, err error) {
	if size < scanned {
		return nil, false, nil
	}
	file := Descriptor(fd)
	found := 0
	block := make([]byte, Block)
	for i := range int64(samples) {
		if n, err := file.ReadAt(block, size/samples*i/Block*Block); err != nil && n < Block {
			return nil, false, err
		}
		if isHole(block, 0) {
			found++
		}
	}
	if found < samples/4 {
		return nil, false, nil
	}
	data, err = Scan(io.NewSectionReader(file, 0, size), size)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // the file has become shorter
		return nil, false, nil
	}
	return data, err == nil && data.Bytes() < size, err
}

// Descriptor reads an open file without changing its offset.
type Descriptor int

// ReadAt implements [io.ReaderAt].
func (fd Descriptor) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(int(fd), b[n:], at+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

func seekError(err error) error {
	if errors.Is(err, unix.EINVAL) { // the file system does not support holes
		return nil
	}
	return err
}

// Each calls a function for the parts of b that are not holes. b is content at an offset of a file.
// A hole is a whole block of zeros.
func Each(b []byte, at int64, f func(b []byte, at int64) error) error {
	for len(b) > 0 {
		n := 0
		for n < len(b) && !isHole(b[n:], at+int64(n)) {
			n = min(len(b), n+int(Block-(at+int64(n))%Block))
		}
		if n > 0 {
			if err := f(b[:n], at); err != nil {
				return err
			}
		}
		for b, at = b[n:], at+int64(n); isHole(b, at); {
			b, at = b[Block:], at+Block
		}
	}
	return nil
}

var zeros [Block]byte

func isHole(b []byte, at int64) bool {
	return at%Block == 0 && len(b) >= Block && bytes.Equal(b[:Block], zeros[:])
}

// Scan reads content of size bytes and returns its data.
func Scan(content io.Reader, size int64) (data Ranges, err error) {
	buffer := make([]byte, 64*Block)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(content, buffer[:min(size-at, int64(len(buffer)))])
		if err != nil {
			return nil, err
		}
		Each(buffer[:n], at, func(b []byte, at int64) error {
			data.add(at, at+int64(len(b)))
			return nil
		})
		at += int64(n)
	}
	return data, nil
}

// tarBlock is the size of a block in tar archives, in bytes.
const tarBlock = 512

// Map encodes the data of a file of size bytes for a tar archive, in version 1.0 of GNU's sparse
// format. In the archive, the map precedes the data. Its length is a multiple of 512 bytes.
func (r Ranges) Map(size int64) []byte {
	if last := len(r) - 1; last < 0 || r[last].At+r[last].Length < size {
		r = append(r[:len(r):len(r)], Range{At: size}) // GNU tar marks a hole at the end like this
	}
	b := append(strconv.AppendInt(nil, int64(len(r)), 10), '\n')
	for _, one := range r {
		b = append(strconv.AppendInt(b, one.At, 10), '\n')
		b = append(strconv.AppendInt(b, one.Length, 10), '\n')
	}
	return append(b, make([]byte, -len(b)&(tarBlock-1))...)
}
