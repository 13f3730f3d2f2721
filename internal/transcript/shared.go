package transcript

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shared is a log in a file of fixed size, which outlives whoever writes it: other processes read it meanwhile and afterwards, without asking the writer. They have
// one cursor in common, by which each byte is taken once. There is one writer. It is safe for concurrent use otherwise.
type Shared struct {
	file  *os.File
	head  []byte // the first page of the file
	limit int64
}

// The head of the file, in words of 8 bytes, in the byte order of the host.
const (
	sharedMagic    = iota // what the file is
	sharedLimit           // how many bytes are kept, behind the head
	sharedReserved        // the end, once what is being written is written: what it will overwrite is not to be read any more
	sharedEnd             // the offset of what will be written next
	sharedEnded           // 1: nothing more will be
	sharedCursor          // the offset of what was not taken yet
	sharedMark            // see Mark

	sharedHead  = 4096
	sharedMost  = 1 << 30
	sharedKnown = 0x31676f6c6f727970 // "pyrolog1"
)

// CreateShared makes a log that keeps the last limit bytes, in a new file for which all of the space is taken now.
func CreateShared(path string, limit int64) (*Shared, error) {
	if limit < 1 || limit > sharedMost {
		return nil, fmt.Errorf("a log of %d bytes: it must be 1 to %d", limit, sharedMost)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, sharedHead+limit)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = file.Truncate(sharedHead + limit)
	}
	var head [16]byte
	binary.NativeEndian.PutUint64(head[:], sharedKnown)
	binary.NativeEndian.PutUint64(head[8:], uint64(limit))
	if err == nil {
		_, err = file.WriteAt(head[:], 0)
	}
	if err != nil {
		file.Close()
		os.Remove(path)
		return nil, err
	}
	return mapShared(file)
}

// OpenShared opens one to read it.
func OpenShared(path string) (*Shared, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // os.OpenFile asks whether it can be waited for, which takes longer than all this
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return mapShared(os.NewFile(uintptr(fd), path))
}

// mapShared takes a file over, if it is a log.
func mapShared(file *os.File) (*Shared, error) {
	l := &Shared{file: file}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() <= sharedHead) {
		err = errors.New("it is no log")
	}
	if err == nil {
		l.head, err = unix.Mmap(int(file.Fd()), 0, sharedHead, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	l.limit = l.word(sharedLimit).Load()
	if l.word(sharedMagic).Load() != sharedKnown || l.limit != info.Size()-sharedHead {
		l.Close()
		return nil, errors.New("it is no log")
	}
	return l, nil
}

// word is one of the head.
func (l *Shared) word(n int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&l.head[8*n])) }

// Close gives the file back. Nobody may use l any more. Idempotent.
func (l *Shared) Close() error {
	if l.head == nil {
		return nil
	}
	head := l.head
	l.head = nil
	return errors.Join(unix.Munmap(head), l.file.Close())
}

// Write appends. It fails only where the file can't be written to.
func (l *Shared) Write(b []byte) (int, error) {
	n := len(b)
	at := l.word(sharedEnd).Load()
	end := at + int64(n)
	l.word(sharedReserved).Store(end)
	if skip := int64(n) - l.limit; skip > 0 { // which nobody could read
		at, b = at+skip, b[skip:]
	}
	for len(b) > 0 {
		place := at % l.limit
		part := b[:min(int64(len(b)), l.limit-place)]
		if _, err := l.file.WriteAt(part, sharedHead+place); err != nil {
			return 0, err
		}
		at, b = at+int64(len(part)), b[len(part):]
	}
	l.word(sharedEnd).Store(end)
	return n, nil
}

// End says that nothing more will be written. Idempotent.
func (l *Shared) End() { l.word(sharedEnded).Store(1) }

// Ended tells whether that was said.
func (l *Shared) Ended() bool { return l.word(sharedEnded).Load() != 0 }

// Start is the offset of the first byte that is kept.
func (l *Shared) Start() int64 { return max(0, l.word(sharedReserved).Load()-l.limit) }

// Len is the offset of the end: how much was written.
func (l *Shared) Len() int64 { return l.word(sharedEnd).Load() }

// Limit is how many bytes are kept.
func (l *Shared) Limit() int64 { return l.limit }

// Cursor is the offset of what was not taken yet. It may be before Start.
func (l *Shared) Cursor() int64 { return l.word(sharedCursor).Load() }

// Mark is a number that whoever has the log may use as they like: it is 0 at first, and lasts as long as the file.
func (l *Shared) Mark() *atomic.Int64 { return l.word(sharedMark) }

// Read gives what is at a cursor and after it, see [Log.Read].
func (l *Shared) Read(cursor int64, chars int) (Piece, error) {
	for {
		ended := l.Ended() // before the end, which is the last one then
		end := l.Len()
		from := min(max(cursor, l.Start(), 0), end)
		data, err := l.bytes(from, min(end, from+int64(chars)*utf8.UTFMax))
		if err != nil {
			return Piece{}, err
		}
		lost := min(max(0, l.Start()-from), int64(len(data))) // overwritten while it was read
		if lost < int64(len(data)) || len(data) == 0 {
			return pieceOf(data[lost:], cursor, from+lost, end, chars, ended), nil
		}
	}
}

// Take is Read at the cursor that all have in common, which it moves behind what it gives.
func (l *Shared) Take(chars int) (Piece, error) {
	for {
		cursor := l.Cursor()
		p, err := l.Read(cursor, chars)
		if err != nil || l.word(sharedCursor).CompareAndSwap(cursor, p.Next) {
			return p, err
		}
	}
}

// Advance moves that cursor from where the caller saw it. It tells whether it was still there: who is told that it was not has taken nothing.
func (l *Shared) Advance(from, to int64) bool {
	return l.word(sharedCursor).CompareAndSwap(from, to)
}

// bytes reads what was written between two offsets that are not further apart than the limit.
func (l *Shared) bytes(from, to int64) ([]byte, error) {
	b := make([]byte, min(to-from, l.limit))
	for n := 0; n < len(b); {
		place := (from + int64(n)) % l.limit
		part := b[n:]
		part = part[:min(int64(len(part)), l.limit-place)]
		got, err := l.file.ReadAt(part, sharedHead+place)
		if err != nil && (!errors.Is(err, io.EOF) || got < len(part)) {
			return nil, err
		}
		n += got
	}
	return b, nil
}
