package tree

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	smallFile   = 128 << 10 // up to which a file is read and written, which then costs fewest system calls
	stretchSize = 32 << 20  // of larger ones, copied between two looks at the context
)

// data copies the content of a file, whose st was read when it was opened, to an empty one.
func (c *copier) data(dst, src int, st *unix.Stat_t) error {
	if st.Size == 0 {
		return nil
	}
	if c.clone {
		done, never := clone(dst, src)
		if done {
			return nil
		}
		c.clone = !never
	}
	if st.Size <= smallFile && st.Blocks*512 >= st.Size {
		return c.small(dst, src, int(st.Size))
	}
	if err := unix.Ftruncate(dst, st.Size); err != nil {
		return err
	}
	for at := int64(0); at < st.Size; {
		begin, err := unix.Seek(src, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // a hole up to its end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(src, begin, unix.SEEK_HOLE)
		if err == unix.ENXIO {
			return errChanged // it has become shorter
		}
		if err != nil {
			return err
		}
		if err := stretch(dst, src, begin, min(end, st.Size), c.buffer, c.ctx.Err); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// small copies a file without holes at once.
func (c *copier) small(dst, src, size int) error {
	n, err := again(func() (int, error) { return unix.Read(src, c.buffer[:size]) })
	if err != nil {
		return err
	}
	if n < size {
		return errChanged
	}
	return writeAll(dst, c.buffer[:size], 0)
}

// writeAll writes at an offset.
func writeAll(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := again(func() (int, error) { return unix.Pwrite(fd, b, at) })
		if err != nil {
			return err
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// clone has an empty file share the blocks of another, and tells whether that could be done, and whether it never can be here.
func clone(dst, src int) (done, never bool) {
	err := unix.IoctlFileClone(dst, src)
	return err == nil, err == unix.EOPNOTSUPP || err == unix.ENOTTY || err == unix.ENOSYS || err == unix.EXDEV
}

// stretch copies what lies between two offsets: in the kernel where it can, which between different file systems it can't always. It is given up when it may not
// go on.
func stretch(dst, src int, at, end int64, buffer []byte, mayGoOn func() error) error {
	for at < end {
		if err := mayGoOn(); err != nil {
			return err
		}
		in, out := at, at
		n, err := again(func() (int, error) {
			return unix.CopyFileRange(src, &in, dst, &out, int(min(end-at, stretchSize)), 0)
		})
		switch {
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
			if n, err = again(func() (int, error) { return unix.Pread(src, buffer[:min(end-at, int64(len(buffer)))], at) }); err != nil {
				return err
			}
			if err := writeAll(dst, buffer[:n], at); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if n == 0 {
			return errChanged // it has become shorter
		}
		at += int64(n)
	}
	return nil
}
