package volume

import (
	"archive/tar"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// folder creates a directory, unless it exists.
func (u *unpacker) folder(name string, h *tar.Header) error {
	if name == "." {
		if !u.isNew {
			return nil
		}
		return u.later(name, h)
	}
	if err := u.enter(path.Dir(name)); err != nil {
		return err
	}
	base := path.Base(name)
	switch err := unix.Mkdirat(int(u.dir.Fd()), base, 0o700); err {
	case nil:
		u.counts.Folders++
		return u.later(name, h)
	case unix.EEXIST:
	default:
		return createError(int(u.dir.Fd()), err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(u.dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if u.owner != nil {
			return nil
		}
		return u.later(name, h)
	}
	f, err := OpenIn(u.root, path.Join(u.top, name), unix.O_PATH|unix.O_DIRECTORY, 0) // a link to a directory
	if err != nil {
		return ErrNoFolder
	}
	return f.Close()
}

// later records a directory. The directory gets its attributes at the end, because new entries
// change its time, and because its mode could forbid new entries.
func (u *unpacker) later(name string, h *tar.Header) error {
	if u.names += len(name); u.names > maxNames || len(u.folders) == maxOperations {
		return Invalid(fmt.Sprintf("an archive has at most %d directories, and their names have at most %d bytes", maxOperations, maxNames))
	}
	u.folders = append(u.folders, folderEntry{name, h})
	return nil
}

// finish sets the attributes of directories, and flushes everything to the disk.
func (u *unpacker) finish() error {
	for i := len(u.folders) - 1; i >= 0; i-- { // the content of a directory before the directory
		if err := u.finishFolder(u.folders[i]); err != nil {
			return &OperationError{u.folders[i].name, err}
		}
	}
	top, err := OpenIn(u.root, u.top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(top.Fd())))
}

func (u *unpacker) finishFolder(f folderEntry) error {
	dir, err := OpenIn(u.root, path.Join(u.top, f.name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := u.attributes(int(dir.Fd()), f.header); err != nil {
		return err
	}
	return setTime(int(dir.Fd()), ".", f.header)
}
