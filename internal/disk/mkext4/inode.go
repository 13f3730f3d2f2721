package mkext4

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	flagExtents = 0x80000
	flagIndex   = 0x1000 // a directory that is a hash tree
	// An inode has 32 bytes after the first 128 bytes, up to and including the project ID. The
	// kernel writes the same number. Extended attributes follow these bytes.
	extraSize   = 32
	inodeXattrs = 128 + extraSize
)

// inode encodes an inode. The parameter content is the root of an extent tree, a link target or a
// device number.
func (e *Entry) inode(links uint32, size int64, blocks uint64, flags uint32, content []byte, attributes xattrs) []byte {
	le := binary.LittleEndian
	b := make([]byte, inodeSize)
	le.PutUint16(b[0x0:], uint16(e.Mode))
	le.PutUint16(b[0x2:], uint16(e.UID))
	le.PutUint32(b[0x4:], uint32(size))
	le.PutUint16(b[0x18:], uint16(e.GID))
	le.PutUint16(b[0x1a:], uint16(links))
	sectors := blocks * (blockSize / 512)
	le.PutUint32(b[0x1c:], uint32(sectors))
	le.PutUint32(b[0x20:], flags)
	copy(b[0x28:0x64], content)
	le.PutUint32(b[0x68:], attributes.block)
	le.PutUint32(b[0x6c:], uint32(size>>32))
	le.PutUint16(b[0x74:], uint16(sectors>>32))
	le.PutUint16(b[0x78:], uint16(e.UID>>16))
	le.PutUint16(b[0x7a:], uint16(e.GID>>16))
	le.PutUint16(b[0x80:], extraSize)
	putTime(b, 0x8, 0x8c, e.Accessed)
	putTime(b, 0xc, 0x84, e.Changed)
	putTime(b, 0x10, 0x88, e.Modified)
	putTime(b, 0x90, 0x94, e.Changed) // The real creation time is unknown.
	copy(b[inodeXattrs:], attributes.inode)
	return b
}

// putTime encodes a timestamp. The first field contains the low 32 bits of the seconds. The extra
// field contains two more bits of the seconds, and the nanoseconds.
func putTime(b []byte, at, extra int, t time.Time) {
	if t.IsZero() {
		return
	}
	seconds, nanoseconds := t.Unix(), t.Nanosecond()
	if seconds < -1<<31 {
		seconds, nanoseconds = -1<<31, 0
	} else if seconds > 1<<34-1<<31-1 {
		seconds, nanoseconds = 1<<34-1<<31-1, 0
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(seconds))
	// The low half is signed. Subtract its value before shifting out the high bits.
	epoch := uint32((seconds-int64(int32(seconds)))>>32) & 3
	binary.LittleEndian.PutUint32(b[extra:], uint32(nanoseconds)<<2|epoch)
}

// deviceContent encodes a device number. The result has two fields. A number that fits into 16 bits
// is in the first field.
func deviceContent(device uint64) []byte {
	major, minor := unix.Major(device), unix.Minor(device)
	b := make([]byte, 8)
	if major < 256 && minor < 256 {
		binary.LittleEndian.PutUint32(b[0:], major<<8|minor)
	} else {
		binary.LittleEndian.PutUint32(b[4:], minor&0xff|major<<8|minor&^0xff<<12)
	}
	return b
}

// batchSize is the number of inodes that are written together. The number of inodes in a group is a
// multiple of batchSize.
const batchSize = 256

// inodes writes inodes in batches. Callers write them almost in the order of their numbers.
type inodes struct {
	layout
	out    *os.File
	last   uint32 // last allocated number
	first  uint32 // index of the first buffered inode, counting from 0
	recent [batchSize * inodeSize]byte
	dirty  bool
}

// number allocates an inode number.
func (t *inodes) number() (uint32, error) {
	if t.last == t.layout.inodes() {
		return 0, t.full()
	}
	t.last++
	return t.last, nil
}

// put writes an inode.
func (t *inodes) put(number uint32, inode []byte) error {
	return t.write(number, 0, inode)
}

// setLinks changes the link count of an inode that is already written.
func (t *inodes) setLinks(number, links uint32) error {
	return t.write(number, 0x1a, binary.LittleEndian.AppendUint16(nil, uint16(links)))
}

func (t *inodes) write(number uint32, offset int, b []byte) error {
	index := number - 1
	if first := index / batchSize * batchSize; first > t.first {
		if err := t.flush(); err != nil {
			return err
		}
		t.first = first
	}
	if index < t.first {
		_, err := t.out.WriteAt(b, t.inodeAt(index)+int64(offset))
		return err
	}
	copy(t.recent[int(index-t.first)*inodeSize+offset:], b)
	t.dirty = true
	return nil
}

func (t *inodes) flush() error {
	if !t.dirty {
		return nil
	}
	t.dirty = false
	_, err := t.out.WriteAt(t.recent[:], t.inodeAt(t.first))
	clear(t.recent[:])
	return err
}
