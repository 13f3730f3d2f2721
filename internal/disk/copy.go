// Package disk copies, hashes and fingerprints disk image files.
package disk

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Copy copies src to dst, which must be empty. If the file system supports reflinks, the copy
// shares its blocks with src. Otherwise Copy copies the data ranges and leaves holes sparse.
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

// Unnamed creates an empty file without a name in the directory folder. The kernel removes the file
// when its last descriptor is closed.
func Unnamed(folder string) (*os.File, error) {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), folder), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return nil, &os.PathError{Op: "open unnamed file in", Path: folder, Err: err}
	}
	// Some file systems do not support O_TMPFILE, such as overlayfs in old kernels.
	f, err := os.CreateTemp(folder, ".unnamed-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// Allocated returns the number of bytes that a file occupies on disk. For a sparse file this number
// is less than the file size.
func Allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Blocks * 512, nil
}
