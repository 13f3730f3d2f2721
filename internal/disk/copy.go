// Package disk handles the images and trees that machines store things on.
package disk

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Copy makes dst, which must be empty, a copy of src: sharing its blocks where the file system can, else block by block with the holes kept.
func Copy(dst, src *os.File) error {
	if err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return err
	}
	return Extents(src, func(offset, length int64) error {
		return copyRange(dst, src, offset, length)
	})
}

func copyRange(dst, src *os.File, offset, length int64) error {
	for length > 0 {
		in, out := offset, offset
		n, err := unix.CopyFileRange(int(src.Fd()), &in, int(dst.Fd()), &out, int(length), 0)
		switch {
		case errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP):
			_, err := io.Copy(io.NewOffsetWriter(dst, offset), io.NewSectionReader(src, offset, length))
			return err
		case err != nil:
			return os.NewSyscallError("copy_file_range", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		offset += int64(n)
		length -= int64(n)
	}
	return nil
}

// Unnamed makes an empty file in folder that has no name: nothing of it is left when its last user closes it.
func Unnamed(folder string) (*os.File, error) {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), folder), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return nil, &os.PathError{Op: "open unnamed file in", Path: folder, Err: err}
	}
	// Some file systems, overlays of old kernels among them, have no unnamed files.
	f, err := os.CreateTemp(folder, ".unnamed-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// Allocated is how many bytes of the disk a file takes, which is less than its size where it has holes.
func Allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Blocks * 512, nil
}
