package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp tells in microseconds whether a file may have changed since it was stamped: every write, truncation and replacement moves the change time or
// the inode, and neither can be set back without the power over the host's clock. What a stamp can't see is a disk that forgets.
type Stamp struct {
	Size  int64  `json:"size"`
	Inode uint64 `json:"inode"`
	MTime int64  `json:"mtime_ns"`
	CTime int64  `json:"ctime_ns"`
}

// StampOf stamps the file at path.
func StampOf(path string) (Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return Stamp{}, &os.PathError{Op: "stamp", Path: path, Err: errors.New("not a regular file")}
	}
	return Stamp{
		Size:  sys.Size,
		Inode: sys.Ino,
		MTime: time.Unix(sys.Mtim.Unix()).UnixNano(),
		CTime: time.Unix(sys.Ctim.Unix()).UnixNano(),
	}, nil
}

// SameContent tells whether a file that had a stamp and now has another has not been written to meanwhile, unless whoever did set its time back. It is for files whose
// names come and go, which moves their change time.
func (s Stamp) SameContent(now Stamp) bool {
	s.CTime = now.CTime
	return s == now
}

// Identity is a word for the file at path that changes when the file is replaced.
func Identity(path string) (string, error) {
	s, err := StampOf(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d %d", path, s.Size, s.Inode, s.MTime), nil
}

// Extents calls f for each stretch of data in file; what lies between is holes.
func Extents(file *os.File, f func(offset, length int64) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		start, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		end, err := unix.Seek(int(file.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		if err := f(start, end-start); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// hashBlock is the grain of Hash: a block of zeroes counts as a hole, so that the sum depends on the content alone, not on how it is stored.
const hashBlock = 64 << 10

// Hash is the SHA-256 of a sparse file's content, "sha256:…": of its size, and of offset and bytes of each 64 KiB block that is not all zero.
// report, which may be nil, is told how many bytes have been read.
func Hash(path string, report func(done int64)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	var number [8]byte
	put := func(n int64) {
		binary.LittleEndian.PutUint64(number[:], uint64(n))
		sum.Write(number[:])
	}
	put(info.Size())
	block, zero := make([]byte, hashBlock), make([]byte, hashBlock)
	var done int64
	next := int64(0)
	err = Extents(f, func(offset, length int64) error {
		// Extents start where the file system's blocks do, so two of them can share one of ours.
		for at := max(offset/hashBlock*hashBlock, next); at < offset+length; at += hashBlock {
			n, err := f.ReadAt(block, at)
			if err != nil && err != io.EOF {
				return err
			}
			if string(block[:n]) != string(zero[:n]) {
				put(at)
				sum.Write(block[:n])
			}
			done += int64(n)
			next = at + hashBlock
			if report != nil {
				report(done)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
