package view

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// pieces is the list of data ranges of a file with holes. In the archive, the list begins with the
// number of pieces. The offset and length of each piece follow, in ascending order, and then the
// data of all pieces. Only the first piece of each page is in memory.
type pieces struct {
	archive io.ReaderAt
	index   int64 // offset of the first piece in the archive
	count   int64
	marks   []piece // first piece of each page
}

// piece is a data range of a file and its offset in the archive.
type piece struct{ start, end, at int64 }

const (
	numberSize = 8
	pieceSize  = 2 * numberSize
	pageSize   = 64 // number of pieces
)

// readPieces reads and checks the pieces of a file of size bytes. The parameter held is the number
// of bytes that the archive contains for the file, and the parameter at is their offset. The
// parameter most is the maximum number of pieces.
func readPieces(archive io.ReaderAt, at, held, size, most int64) (*pieces, error) {
	source := bufio.NewReaderSize(io.NewSectionReader(archive, at, held), int(min(held, 64<<10)))
	var b [pieceSize]byte
	if _, err := io.ReadFull(source, b[:numberSize]); err != nil {
		return nil, fmt.Errorf("read the number of its pieces: %w", err)
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > uint64(held-numberSize)/pieceSize {
		return nil, errors.New("it has more pieces than its entry can hold")
	}
	if n > uint64(most) {
		return nil, tooMany(maxPieces, "pieces of files with holes")
	}
	p := &pieces{archive: archive, index: at + numberSize, count: int64(n)}
	last := piece{at: p.index + p.count*pieceSize}
	for i := range p.count {
		if _, err := io.ReadFull(source, b[:]); err != nil {
			return nil, fmt.Errorf("read its pieces: %w", err)
		}
		next := last.next(b[:])
		// These comparisons can't overflow.
		if next.start < last.end || next.start > size || next.end <= next.start || next.end > size {
			return nil, errors.New("its pieces overlap, are unsorted, or exceed its size")
		}
		if next.end-next.start > at+held-next.at {
			return nil, errors.New("its pieces are longer than its data")
		}
		if i%pageSize == 0 {
			p.marks = append(p.marks, next)
		}
		last = next
	}
	if last.at+last.end-last.start != at+held {
		return nil, errors.New("its pieces are shorter than its data")
	}
	return p, nil
}

// next decodes the piece after p from two numbers: its offset and its length. The data of the next
// piece follows the data of p.
func (p piece) next(numbers []byte) piece {
	start := int64(binary.LittleEndian.Uint64(numbers))
	return piece{start, start + int64(binary.LittleEndian.Uint64(numbers[numberSize:])), p.at + p.end - p.start}
}

// find returns the first piece that ends after offset. If there is no such piece, it returns an
// empty piece.
func (p *pieces) find(offset int64) (piece, error) {
	page, found := slices.BinarySearchFunc(p.marks, offset, func(m piece, offset int64) int { return cmp.Compare(m.start, offset) })
	if !found && page > 0 {
		page--
	}
	for ; page < len(p.marks); page++ {
		first := int64(page) * pageSize
		b := make([]byte, min(pageSize, p.count-first)*pieceSize)
		if err := readAt(p.archive, b, p.index+first*pieceSize); err != nil {
			return piece{}, err
		}
		for at := (piece{at: p.marks[page].at}); len(b) > 0; b = b[pieceSize:] {
			if at = at.next(b); at.end > offset {
				return at, nil
			}
		}
	}
	return piece{}, nil
}

// contents reads the content of a file with holes.
type contents struct {
	*pieces
	size int64
}

func (c contents) ReadAt(b []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	whole := len(b)
	b = b[:max(0, min(int64(whole), c.size-offset))]
	for n < len(b) {
		at := offset + int64(n)
		p, err := c.find(at)
		if err != nil {
			return n, err
		}
		hole := int64(len(b) - n)
		if p.end != 0 {
			hole = max(0, min(hole, p.start-at))
		}
		clear(b[n:][:hole])
		if n += int(hole); p.end == 0 || n == len(b) {
			continue
		}
		at += hole
		part := b[n:][:min(int64(len(b)-n), p.end-at)]
		if err := readAt(c.archive, part, p.at+at-p.start); err != nil {
			return n, err
		}
		n += len(part)
	}
	if n < whole {
		return n, io.EOF
	}
	return n, nil
}

// readAt reads exactly len(b) bytes or fails.
func readAt(from io.ReaderAt, b []byte, offset int64) error {
	n, err := from.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fileWithHoles is an open file with holes.
type fileWithHoles struct {
	file
	pieces *pieces
}

// NextData returns the first data range that ends after offset. If there is no such range, it
// returns an empty range.
func (f *fileWithHoles) NextData(offset int64) (start, end int64, err error) {
	p, err := f.pieces.find(offset)
	return p.start, p.end, err
}

// open opens a regular file.
func (c *changes) open(n *node, stat fs.FileInfo) fs.File {
	if n.pieces == nil {
		return &file{io.NewSectionReader(c.archive, n.content, n.size), stat}
	}
	return &fileWithHoles{file{io.NewSectionReader(contents{n.pieces, n.size}, 0, n.size), stat}, n.pieces}
}
