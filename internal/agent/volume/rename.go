package volume

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrExists means that the new path of a rename exists.
var ErrExists = errors.New("it already exists")

// Errors of Rename about paths that can never work.
const (
	ErrIntoItself = Invalid("a folder can't be moved into itself")
	ErrOtherFS    = Invalid("the paths are on different file systems; copy the content, then remove it at the old path")
)

// Rename moves an entry below root, with everything below it. The paths are absolute and clean.
// Like RemoveTree, it follows links only in parent folders, so it moves a link itself, not its
// target. It never replaces an entry, not even an empty folder: if the new path exists, it fails
// with an [OperationError] for this path. It fails with one for the parent of the new path if the
// parent is missing.
//
// Rename is not idempotent: after a success, the same call fails with ENOENT, or moves an entry
// that another program has created at the old path. Rename does not flush, so a crash can undo it.
func Rename(root int, from, to string) error { return rename(root, from, to, moveToFree) }

// rename is Rename with a function that moves an entry of a directory to a free name.
func rename(root int, from, to string, move func(from int, name string, to int, as string) error) error {
	if strings.HasPrefix(to, from+"/") {
		return pathError("rename", from, ErrIntoItself)
	}
	open := foldersIn(root)
	oldDir, err := open(path.Dir(from))
	if err != nil {
		return err
	}
	defer oldDir.Close()
	newDir, err := folderAt(open, path.Dir(to), false)
	if errors.Is(err, unix.ENOENT) {
		return &OperationError{path.Dir(to), unix.ENOENT}
	}
	if err != nil {
		return err
	}
	defer newDir.Close()
	switch err := move(int(oldDir.Fd()), path.Base(from), int(newDir.Fd()), path.Base(to)); err {
	case unix.EEXIST:
		return &OperationError{to, ErrExists}
	case unix.EXDEV:
		return pathError("rename", from, ErrOtherFS)
	default:
		return pathError("rename", from, err)
	}
}

// moveToFree moves an entry to a free name. Some file systems do not support RENAME_NOREPLACE, for
// example gVisor's for a volume. They return EINVAL.
func moveToFree(from int, name string, to int, as string) error {
	err := unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		return moveToReserved(from, name, to, as)
	}
	return err
}

// moveToReserved is moveToFree without RENAME_NOREPLACE. It first reserves the name with an empty
// entry, which fails if the name exists, and then replaces this entry. So it can't replace an
// existing entry. A program that writes to the empty file between these steps loses its content. A
// crash can leave the empty entry behind.
func moveToReserved(from int, name string, to int, as string) error {
	var st unix.Stat_t
	err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
		err = unix.Mkdirat(to, as, 0o700) // if another program adds an entry to it, the rename fails
	} else {
		err = unix.Mknodat(to, as, unix.S_IFREG, 0)
	}
	if err != nil {
		return err
	}
	if err = unix.Renameat(from, name, to, as); err != nil {
		unix.Unlinkat(to, as, flags)
	}
	return err
}
