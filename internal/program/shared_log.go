package program

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

// SharedLog is a log in a file of fixed size. Other processes can read it while the writer runs,
// and after the writer has died. They share one cursor, so Take returns each byte only once. There
// must be only one writer. All other methods are safe for concurrent use.
type SharedLog struct {
	file  *os.File
	head  []byte // the first page of the file
	limit int64
}

// The head of the file consists of 8-byte integers in the host's byte order.
const (
	sharedMagic    = iota // the file type.
	sharedLimit           // number of kept bytes; they are stored after the head.
	sharedReserved        // offset of the end of the write in progress; readers must not use the bytes that it overwrites.
	sharedEnd             // offset of the next write.
	sharedEnded           // 1 after End.
	sharedCursor          // offset of the first byte that was not taken.
	sharedMark            // see Mark.

	sharedHead  = 4096
	sharedMost  = 1 << 30
	sharedKnown = 0x31676f6c6f727970 // "pyrolog1"
)

// CreateSharedLog creates a log that keeps only its last bytes, at most limit of them. If possible,
// it allocates the whole file in advance.
func CreateSharedLog(path string, limit int64) (*SharedLog, error) {
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

// OpenSharedLog opens a log for reading.
func OpenSharedLog(path string) (*SharedLog, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // faster than os.OpenFile, which also registers the file with the poller
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return mapShared(os.NewFile(uintptr(fd), path))
}

// mapShared maps the head of a file, if the file is a log. It takes ownership of the file.
func mapShared(file *os.File) (*SharedLog, error) {
	l := &SharedLog{file: file}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() <= sharedHead) {
		err = errors.New("not a log file")
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
		return nil, errors.New("not a log file")
	}
	return l, nil
}

// word returns the integer at index n of the head.
func (l *SharedLog) word(n int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&l.head[8*n])) }

// Close closes the log, which must not be used afterwards. Close is idempotent.
func (l *SharedLog) Close() error {
	if l.head == nil {
		return nil
	}
	head := l.head
	l.head = nil
	return errors.Join(unix.Munmap(head), l.file.Close())
}

// Write appends b. It fails only if writing to the file fails. It overwrites at most half of the
// log at a time, so that readers always find the rest.
func (l *SharedLog) Write(b []byte) (int, error) {
	at, most := l.word(sharedEnd).Load(), max(l.limit/2, 1)
	for n := 0; n < len(b); {
		offset := at % l.limit
		part := b[n:]
		part = part[:min(int64(len(part)), most, l.limit-offset)]
		l.word(sharedReserved).Store(at + int64(len(part)))
		if _, err := l.file.WriteAt(part, sharedHead+offset); err != nil {
			return n, err
		}
		at, n = at+int64(len(part)), n+len(part)
		l.word(sharedEnd).Store(at)
	}
	return len(b), nil
}

// End marks the log as complete. It is idempotent.
func (l *SharedLog) End() { l.word(sharedEnded).Store(1) }

// Ended reports whether End was called.
func (l *SharedLog) Ended() bool { return l.word(sharedEnded).Load() != 0 }

// Start returns the offset of the first kept byte.
func (l *SharedLog) Start() int64 { return max(0, l.word(sharedReserved).Load()-l.limit) }

// Len returns the offset of the end of the log, which is the number of bytes that were written.
func (l *SharedLog) Len() int64 { return l.word(sharedEnd).Load() }

// Limit returns the number of bytes that are kept.
func (l *SharedLog) Limit() int64 { return l.limit }

// Cursor returns the offset of the first byte that was not taken. It can be before Start.
func (l *SharedLog) Cursor() int64 { return l.word(sharedCursor).Load() }

// Mark returns a number in the file that the owners of the log can use for their own purpose. It is
// initially 0.
func (l *SharedLog) Mark() *atomic.Int64 { return l.word(sharedMark) }

// Read returns at most the given number of characters, starting at cursor. See [Log.Read].
func (l *SharedLog) Read(cursor int64, chars int) (Piece, error) {
	for {
		ended := l.Ended() // read before the end: if ended is true, the end is final
		start := l.Start() // read before the end, which a writer moves too: it is not after the end
		end := l.Len()
		from := min(max(cursor, start), end)
		data, err := l.bytes(from, min(end, from+int64(chars)*utf8.UTFMax))
		if err != nil {
			return Piece{}, err
		}
		lost := min(max(0, l.Start()-from), int64(len(data))) // bytes that were overwritten during the read
		if lost < int64(len(data)) || len(data) == 0 {
			return pieceOf(data[lost:], cursor, from+lost, end, chars, ended), nil
		}
	}
}

// Take reads at the shared cursor, and moves the cursor after the bytes that it returns.
func (l *SharedLog) Take(chars int) (Piece, error) {
	for {
		cursor := l.Cursor()
		p, err := l.Read(cursor, chars)
		if err != nil || l.word(sharedCursor).CompareAndSwap(cursor, p.Next) {
			return p, err
		}
	}
}

// Advance moves the shared cursor to another offset. It returns false, and changes nothing, if the
// cursor is not at the first offset.
func (l *SharedLog) Advance(from, to int64) bool {
	return l.word(sharedCursor).CompareAndSwap(from, to)
}

// bytes returns the bytes between two offsets, which must be at most limit apart.
func (l *SharedLog) bytes(from, to int64) ([]byte, error) {
	b := make([]byte, min(to-from, l.limit))
	for n := 0; n < len(b); {
		offset := (from + int64(n)) % l.limit
		part := b[n:]
		part = part[:min(int64(len(part)), l.limit-offset)]
		got, err := l.file.ReadAt(part, sharedHead+offset)
		if err != nil && (!errors.Is(err, io.EOF) || got < len(part)) {
			return nil, err
		}
		n += got
	}
	return b, nil
}
