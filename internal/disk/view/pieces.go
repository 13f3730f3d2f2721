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

// pieces tells where a file with holes has data. In the archive are how many pieces there are, for each its offset in the file and its length, ascending and
// apart, and then the data of all. Of them memory has only the first of each page.
type pieces struct {
	archive io.ReaderAt
	index   int64 // where the first begins in the archive
	count   int64
	marks   []piece // the first of each page
}

// piece is a stretch of data of a file, and where the archive has it.
type piece struct{ start, end, at int64 }

const (
	numberSize = 8
	pieceSize  = 2 * numberSize
	pageSize   = 64 // pieces
)

// readPieces reads the pieces of a file of a size, of which the archive holds so many bytes that begin at an offset. It checks all of them, and that there are
// not more than most.
func readPieces(archive io.ReaderAt, at, held, size, most int64) (*pieces, error) {
	source := bufio.NewReaderSize(io.NewSectionReader(archive, at, held), int(min(held, 64<<10)))
	var b [pieceSize]byte
	if _, err := io.ReadFull(source, b[:numberSize]); err != nil {
		return nil, fmt.Errorf("the number of its pieces: %w", err)
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > uint64(held-numberSize)/pieceSize {
		return nil, errors.New("it has more pieces than there is room for")
	}
	if n > uint64(most) {
		return nil, tooMany(maxPieces, "pieces of files with holes")
	}
	p := &pieces{archive: archive, index: at + numberSize, count: int64(n)}
	last := piece{at: p.index + p.count*pieceSize}
	for i := range p.count {
		if _, err := io.ReadFull(source, b[:]); err != nil {
			return nil, fmt.Errorf("its pieces: %w", err)
		}
		next := last.next(b[:])
		// It is compared such that nothing overflows.
		if next.start < last.end || next.start > size || next.end <= next.start || next.end > size {
			return nil, errors.New("its pieces are in no order, or not in it")
		}
		if next.end-next.start > at+held-next.at {
			return nil, errors.New("its pieces are more than there is of it")
		}
		if i%pageSize == 0 {
			p.marks = append(p.marks, next)
		}
		last = next
	}
	if last.at+last.end-last.start != at+held {
		return nil, errors.New("its pieces are less than there is of it")
	}
	return p, nil
}

// next is the piece that two numbers of the archive say. Its data are behind those of the one before.
func (p piece) next(numbers []byte) piece {
	start := int64(binary.LittleEndian.Uint64(numbers))
	return piece{start, start + int64(binary.LittleEndian.Uint64(numbers[numberSize:])), p.at + p.end - p.start}
}

// find gives the first piece that ends after an offset, an empty one where there is none.
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

// contents is what is in a file with holes.
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

// readAt fills b.
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

// fileWithHoles is an open file.
type fileWithHoles struct {
	file
	pieces *pieces
}

// NextData gives the first stretch of data that ends after an offset, an empty one where there is none.
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
