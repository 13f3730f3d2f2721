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

// Stamp is a fingerprint of a file that takes microseconds to compare. Every write, truncation and
// replacement changes the ctime or the inode number. To forge the ctime, a process must set the
// host's clock. A stamp can't detect a failing disk.
type Stamp struct {
	Size  int64  `json:"size"`
	Inode uint64 `json:"inode"`
	MTime int64  `json:"mtime_ns"`
	CTime int64  `json:"ctime_ns"`
}

// StampOf returns the stamp of the regular file at path.
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

// SameContent reports whether two stamps are equal, ignoring the ctime. It is for files to which
// other processes add or remove hard links, because that changes the ctime. It does not detect a
// write by a program that resets the mtime afterwards.
func (s Stamp) SameContent(now Stamp) bool {
	s.CTime = now.CTime
	return s == now
}

// Identity returns a string that identifies the file at path and changes when the file is replaced.
func Identity(path string) (string, error) {
	s, err := StampOf(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d %d", path, s.Size, s.Inode, s.MTime), nil
}

// Extents calls f for each data range in file. The bytes between the data ranges are holes.
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

// hashBlock is the block size of Hash in bytes. Hash treats blocks of zeros as holes, so that the
// hash depends only on the content, and not on the allocated blocks.
const hashBlock = 64 << 10

// Hash returns the SHA-256 of a sparse file's content as "sha256:…". The hash covers the file
// size, and the offset and bytes of each 64 KiB block that is not all zero. If report is not nil,
// Hash calls it with the number of bytes read so far.
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
		// Extents are aligned to the file system's blocks, so two of them can share one hash block.
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
