package mkext4

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	bufferSize = 1 << 20 // bytes
	// After this many bytes the writer asks the host to start writeback. The final flush of the
	// image is then fast.
	writeBehind = 8 << 20
)

// data allocates blocks in sequence and writes them in large pieces.
type data struct {
	layout
	out    *os.File
	at     uint32 // number of the block at the start of the buffer
	buffer []byte // full blocks that are not written yet
	behind int64  // bytes written since the last writeback request
}

// next returns the number of the block that is allocated next.
func (d *data) next() uint32 { return d.at + uint32(len(d.buffer)/blockSize) }

// reserve returns buffer space for adjacent blocks: at least one block, and as many as possible.
func (d *data) reserve() ([]byte, error) {
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

// commit allocates the first n bytes of the space that reserve returned. n must be a multiple of
// the block size.
func (d *data) commit(n int) { d.buffer = d.buffer[:len(d.buffer)+n] }

// block allocates a block and writes its content.
func (d *data) block(content []byte) (uint32, error) {
	room, err := d.reserve()
	if err != nil {
		return 0, err
	}
	at := d.next()
	clear(room[copy(room[:blockSize], content):blockSize])
	d.commit(blockSize)
	return at, nil
}

func (d *data) flush() error {
	if _, err := d.out.WriteAt(d.buffer, int64(d.at)*blockSize); err != nil {
		return err
	}
	d.at = d.next()
	if d.behind += int64(len(d.buffer)); d.behind >= writeBehind {
		// This is only a hint. If it fails, the final flush takes longer.
		_ = unix.SyncFileRange(int(d.out.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		d.behind = 0
	}
	d.buffer = d.buffer[:0]
	return nil
}

// write allocates blocks for content, and returns their extents. Blocks of zeros become holes.
func (d *data) write(size int64, content io.Reader) (extents, error) {
	var e extents
	if sparse, ok := content.(Sparse); ok {
		return e, d.writeSparse(&e, size, sparse)
	}
	return e, d.writeRange(&e, 0, size, content)
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
		if err := d.writeRange(e, start, end-start, io.NewSectionReader(content, start, end-start)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// writeRange writes a range of content. The range starts at a block boundary.
func (d *data) writeRange(e *extents, offset, size int64, content io.Reader) error {
	for size > 0 {
		room, err := d.reserve()
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
		d.commit(d.dropZeros(e, offset/blockSize, room[:whole]))
		offset, size = offset+int64(n), size-int64(n)
	}
	return nil
}

var zeroBlock [blockSize]byte

// dropZeros removes blocks of zeros from a buffer. It records the extents of the other blocks, and
// returns the size of the other blocks in bytes.
func (d *data) dropZeros(e *extents, logical int64, blocks []byte) (length int) {
	for from := 0; from < len(blocks); from, logical = from+blockSize, logical+1 {
		block := blocks[from:][:blockSize]
		if bytes.Equal(block, zeroBlock[:]) {
			continue
		}
		e.add(uint32(logical), d.next()+uint32(length/blockSize))
		if length != from {
			copy(blocks[length:], block)
		}
		length += blockSize
	}
	return length
}
