package mkext4

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	bufferSize = 1 << 20 // bytes
	// After so many bytes the host is told to begin writing them to its disk, so that little is left to do when the image is flushed.
	writeBehind = 8 << 20
)

// data gives out blocks, one after the other, and writes them in large pieces.
type data struct {
	layout
	out    *os.File
	at     uint32 // the block that the buffer begins at
	buffer []byte // whole blocks, to be written at that block
	behind int64  // bytes written since the host was told to begin
}

// next is the block that will be given out next.
func (d *data) next() uint32 { return d.at + uint32(len(d.buffer)/blockSize) }

// room makes place for blocks that lie one after the other, as many as there can be: at least one.
func (d *data) room() ([]byte, error) {
	next := d.next()
	if after := d.reserved(next); after != next || len(d.buffer) == cap(d.buffer) {
		if err := d.flush(); err != nil {
			return nil, err
		}
		d.at, next = after, after
	}
	if next >= d.blocks {
		return nil, d.full()
	}
	free := min(int64(cap(d.buffer)-len(d.buffer)), int64(d.nextReserved(next)-next)*blockSize)
	return d.buffer[len(d.buffer):][:free], nil
}

// keep gives out the first n bytes of what room gave, which are whole blocks.
func (d *data) keep(n int) { d.buffer = d.buffer[:len(d.buffer)+n] }

// block gives out a block.
func (d *data) block(content []byte) (uint32, error) {
	room, err := d.room()
	if err != nil {
		return 0, err
	}
	at := d.next()
	clear(room[copy(room[:blockSize], content):blockSize])
	d.keep(blockSize)
	return at, nil
}

func (d *data) flush() error {
	if _, err := d.out.WriteAt(d.buffer, int64(d.at)*blockSize); err != nil {
		return err
	}
	d.at = d.next()
	if d.behind += int64(len(d.buffer)); d.behind >= writeBehind {
		// It is a hint: where it fails there is only more to do at the end.
		_ = unix.SyncFileRange(int(d.out.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		d.behind = 0
	}
	d.buffer = d.buffer[:0]
	return nil
}

// write gives out the blocks for some content, and tells where they are. Blocks of zeros get none.
func (d *data) write(size int64, content io.Reader) (extents, error) {
	var e extents
	if sparse, ok := content.(Sparse); ok {
		return e, d.writeSparse(&e, size, sparse)
	}
	return e, d.stretch(&e, 0, size, content)
}

func (d *data) writeSparse(e *extents, size int64, content Sparse) error {
	for at := int64(0); at < size; {
		start, end, err := content.NextData(at)
		if err != nil {
			return err
		}
		start, end = max(at, start/blockSize*blockSize), min(end, size)
		if start >= end {
			return nil
		}
		end = min((end+blockSize-1)/blockSize*blockSize, size)
		if err := d.stretch(e, start, end-start, io.NewSectionReader(content, start, end-start)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// stretch writes a stretch of some content, which begins where a block does.
func (d *data) stretch(e *extents, offset, size int64, content io.Reader) error {
	for size > 0 {
		room, err := d.room()
		if err != nil {
			return err
		}
		n := int(min(size, int64(len(room))))
		if _, err := io.ReadFull(content, room[:n]); err == io.EOF {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		whole := (n + blockSize - 1) / blockSize * blockSize
		clear(room[n:whole])
		d.keep(d.sift(e, offset/blockSize, room[:whole]))
		offset, size = offset+int64(n), size-int64(n)
	}
	return nil
}

var zeroBlock [blockSize]byte

// sift moves the blocks that are not all zeros together, enters them, and tells how many bytes they are.
func (d *data) sift(e *extents, logical int64, blocks []byte) (kept int) {
	for from := 0; from < len(blocks); from, logical = from+blockSize, logical+1 {
		block := blocks[from:][:blockSize]
		if bytes.Equal(block, zeroBlock[:]) {
			continue
		}
		e.add(uint32(logical), d.next()+uint32(kept/blockSize))
		if kept != from {
			copy(blocks[kept:], block)
		}
		kept += blockSize
	}
	return kept
}
