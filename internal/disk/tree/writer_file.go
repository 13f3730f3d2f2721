package tree

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/sparse"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// file is a regular file that the writer creates.
type file struct {
	name  string
	base  string
	mode  uint32
	mtime unix.Timespec
	sync  bool
	mark  bool
}

// write creates the file in each folder. It calls the function fill to write the content of the
// first file. It calls the function clone to copy that content to each other file.
func (f file) write(folders []int, fill func(fd int) error, clone func(fd, first int) error) error {
	var files []int
	err := func() error {
		for _, folder := range folders {
			fd, err := openAt(folder, f.base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			if files = append(files, fd); len(files) == 1 {
				err = fill(fd)
			} else {
				err = clone(fd, files[0])
			}
			if err == nil {
				err = f.finish(folder, fd)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	for _, fd := range files {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// finish sets the mode and time after the content is written. Writing would change the time, and
// the mode could forbid writing.
func (f file) finish(folder, fd int) error {
	if f.mark {
		_ = unix.Fsetxattr(fd, xattr.Shared, nil, 0) // an unmarked file is copied instead of shared
	}
	if err := unix.Fchmod(fd, f.mode); err != nil {
		return err
	}
	if err := touch(folder, f.base, f.mtime); err != nil || !f.sync {
		return err
	}
	return unix.Fsync(fd)
}

func (w *Writer) file(f file, size int64, content io.Reader) error {
	if size <= poolMaxFile {
		buffer := w.pool.buffer()
		if _, err := io.ReadFull(content, buffer[:size]); err != nil {
			w.pool.free <- buffer
			return err
		}
		w.pool.jobs <- job{f, w.current.retain(), buffer[:size]}
		return nil
	}
	if w.buffer == nil {
		w.buffer = make([]byte, 1<<20)
	}
	return f.write(w.current.fds, func(fd int) error {
		if err := unix.Ftruncate(fd, size); err != nil {
			return err
		}
		for at := int64(0); at < size; {
			n, err := io.ReadFull(content, w.buffer[:min(int64(len(w.buffer)), size-at)])
			if err != nil {
				return err
			}
			err = sparse.Each(w.buffer[:n], at, func(b []byte, at int64) error { return writeAll(fd, b, at) })
			if err != nil {
				return err
			}
			at += int64(n)
		}
		return nil
	}, func(fd, first int) error {
		if w.pool.clone(fd, first) {
			return nil
		}
		return copySparse(fd, first, size, w.buffer, func() error { return nil })
	})
}
