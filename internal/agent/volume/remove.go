package volume

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// RemoveTree removes a directory entry and everything below it. It follows no symbolic link. Errors
// use shown as the path of the entry.
func RemoveTree(dir int, name, shown string) error {
	return removeTree(dir, name, shown, func(dir int, name, shown string, flags int) error {
		return pathError("remove", shown, unix.Unlinkat(dir, name, flags))
	})
}

// removeTree removes a directory entry and everything below it. It calls the function unlink, which
// works like unlinkat(2), for each entry. It stops at the first error.
func removeTree(dir int, name, shown string, unlink func(dir int, name, shown string, flags int) error) error {
	err := unlink(dir, name, shown, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, openErr := unix.Openat(dir, name, flags, 0)
	if openErr == unix.ENOTDIR || openErr == unix.ELOOP {
		return pathError("remove", shown, unix.EPERM) // the entry is a file that can't be removed
	}
	if openErr != nil {
		return pathError("remove", shown, openErr)
	}
	within := os.NewFile(uintptr(fd), shown)
	err = emptyDirectory(within, shown, unlink)
	within.Close()
	if err != nil {
		return err
	}
	return unlink(dir, name, shown, unix.AT_REMOVEDIR)
}

// emptyDirectory removes everything in a directory. After each chunk of names it reads the
// directory from the start again, because some file systems skip names after a removal. Other
// programs can remove names at the same time.
func emptyDirectory(dir *os.File, shown string, unlink func(dir int, name, shown string, flags int) error) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return pathError("read", shown, err)
		}
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := removeTree(int(dir.Fd()), name, path.Join(shown, name), unlink); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return pathError("read", shown, err)
		}
	}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
