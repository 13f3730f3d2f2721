package tree

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	smallFile  = 128 << 10 // Up to this size in bytes, one read and one write need the fewest system calls.
	rangeChunk = 32 << 20  // Number of bytes between checks of the context.
)

// data copies the content of the file src to the empty file dst. st is the state of src when it was
// opened.
func (w *copyWorker) data(dst, src int, st *unix.Stat_t) error {
	if st.Size == 0 {
		return nil
	}
	if !w.noClones.Load() {
		done, unsupported := clone(dst, src)
		if done {
			return nil
		}
		if unsupported {
			w.noClones.Store(true)
		}
	}
	if st.Size <= smallFile && st.Blocks*512 >= st.Size {
		return w.small(dst, src, int(st.Size))
	}
	return copySparse(dst, src, st.Size, w.buffer, w.stopped)
}

// copySparse copies size bytes of the file src to the empty file dst, without the holes. It stops
// when check returns an error.
func copySparse(dst, src int, size int64, buffer []byte, check func() error) error {
	if err := unix.Ftruncate(dst, size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		begin, err := unix.Seek(src, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // The rest is a hole.
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(src, begin, unix.SEEK_HOLE)
		if err == unix.ENXIO {
			return errChanged // The file was truncated.
		}
		if err != nil {
			return err
		}
		if err := copyRange(dst, src, begin, min(end, size), buffer, check); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// small copies a file without holes, using a single read.
func (w *copyWorker) small(dst, src, size int) error {
	n, err := retry(func() (int, error) { return unix.Read(src, w.buffer[:size]) })
	if err != nil {
		return err
	}
	if n < size {
		return errChanged
	}
	return writeAll(dst, w.buffer[:size], 0)
}

// writeAll writes all of b, starting at an offset.
func writeAll(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := retry(func() (int, error) { return unix.Pwrite(fd, b, at) })
		if err != nil {
			return err
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// clone makes the empty file dst share the blocks of src. unsupported reports that the file systems
// of the two files can never share blocks.
func clone(dst, src int) (done, unsupported bool) {
	err := unix.IoctlFileClone(dst, src)
	return err == nil, err == unix.EOPNOTSUPP || err == unix.ENOTTY || err == unix.ENOSYS || err == unix.EXDEV
}

// copyRange copies the bytes between two offsets. It copies in the kernel if the file systems
// support that, and otherwise through buffer. It calls check before each chunk, and stops when
// check returns an error.
func copyRange(dst, src int, at, end int64, buffer []byte, check func() error) error {
	for at < end {
		if err := check(); err != nil {
			return err
		}
		in, out := at, at
		n, err := retry(func() (int, error) {
			return unix.CopyFileRange(src, &in, dst, &out, int(min(end-at, rangeChunk)), 0)
		})
		switch {
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
			if n, err = retry(func() (int, error) { return unix.Pread(src, buffer[:min(end-at, int64(len(buffer)))], at) }); err != nil {
				return err
			}
			if err := writeAll(dst, buffer[:n], at); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if n == 0 {
			return errChanged // The file was truncated.
		}
		at += int64(n)
	}
	return nil
}
