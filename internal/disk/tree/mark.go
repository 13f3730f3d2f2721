package tree

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// Sharing determines which files of a copy are hard links of other files.
type Sharing struct {
	// Base is a folder that never changes, or "". If it has the same file at the same path, the
	// copy is a hard link of it. A file is the same if its content, owner, mode, modification time
	// and extended attributes match. If Base is the source, all files are linked, and nothing is
	// compared. If it does not exist, it is ignored. With a Base, the copy must never change.
	Base string
	// If Marked is set, marked files of the source are linked. If Constant is set too, the copy
	// first marks the other files of the source, except files with several names.
	Marked bool
	// Constant says that nothing changes the source any more.
	Constant bool
	// Paused says that nothing changes the source during the copy. Later, a machine can change it,
	// and replaces marked files by copies. If Marked is set too, the copy marks the other files of
	// the source. Exceptions are files that are open for writing, files with several names or
	// xattr.SeveralNames, and files larger than 16 MiB. The machine's later copy of a larger file
	// would take too long.
	Paused bool
	// Mark says that nothing will change the copy, so that its own files can be marked.
	Mark bool
}

// marking finds and sets marks in a folder of the source and of the copy.
type marking struct {
	allMarked bool // all files in the folder of the source are marked

	// Number of unmarked files in the folder of the source that can't be marked, and number of
	// unmarked files in the folder of the copy.
	unmarkable, unmarked int
}

// canLink reports whether a file of the source is marked. In a constant or paused source, it first
// marks the file. st is the state of the file. If canLink returns false, the file must be copied.
func (f *folderCopy) canLink(name string, st *unix.Stat_t) (bool, error) {
	if f.sharing.Constant && st.Nlink == 1 {
		err := unix.Lsetxattr(pathIn(f.from.fd, name), xattr.Shared, nil, unix.XATTR_CREATE)
		f.checkMark(err)
		return err == nil || err == unix.EEXIST, nil
	}
	if isMarkedIn(f.from.fd, name) {
		return true, nil
	}
	if f.sharing.Paused && st.Nlink == 1 && st.Size <= maxPausedShare {
		return f.markUnwritten(name)
	}
	return false, nil
}

// maxPausedShare is the maximum size of a file that markUnwritten marks, in bytes. A machine copies
// a file of this size in some tens of milliseconds.
const maxPausedShare = 16 << 20

// markUnwritten marks a file of a paused machine. If a process can write to the file, or the file
// system does not tell, it returns false.
//
// A read lease is possible only while the file is not open for writing. Until the lease ends,
// opening it for writing waits. So a process that opens the file for writing and then finds no mark
// can rely on that until it closes the file. The kernel ends a lease after some time, even if the
// copy does not. F_GETLEASE shows this, and also a process that waits. In both cases the machine is
// not paused.
func (f *folderCopy) markUnwritten(name string) (bool, error) {
	fd, _, err := f.from.Open(name)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false, nil
	}
	defer unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Nlink != 1 {
		return false, err
	}
	if _, err := unix.Fgetxattr(fd, xattr.SeveralNames, nil); err != unix.ENODATA {
		return false, nil
	}
	if err := unix.Fsetxattr(fd, xattr.Shared, xattr.SharedSince(st.Ctim.Unix()), unix.XATTR_CREATE); err != nil {
		f.checkMark(err)
		return false, nil
	}
	if lease, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); err != nil || lease != unix.F_RDLCK {
		return false, cmp.Or(unix.Fremovexattr(fd, xattr.Shared), errChanged)
	}
	return true, nil
}

// findMark finds out whether all files in the folder of the source are marked.
func (f *folderCopy) findMark() {
	f.allMarked = f.sharing.Marked && f.sharing.Constant && IsMarked(f.from.fd)
}

// markFolders marks the folder of the source and of the copy if all of their files are marked.
func (f *folderCopy) markFolders() {
	if f.sharing.Marked && f.sharing.Constant && !f.noMarks.Load() && !f.allMarked && f.unmarkable == 0 {
		f.checkMark(unix.Fsetxattr(f.from.fd, xattr.Shared, nil, 0))
	}
	if f.sharing.Mark && !f.noMarks.Load() && f.unmarked == 0 {
		f.checkMark(unix.Fsetxattr(f.to, xattr.Shared, nil, 0))
	}
}

// mark marks a new file of the copy. It must happen before the file gets its mode, because the mode
// could forbid it.
func (f *folderCopy) mark(fd int) {
	if !f.sharing.Mark || f.noMarks.Load() {
		return
	}
	if err := unix.Fsetxattr(fd, xattr.Shared, nil, 0); err != nil {
		f.unmarked++
		f.checkMark(err)
	}
}

// checkMark records whether the file system supports no marks. err is the result of setting one.
func (c *copier) checkMark(err error) {
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EPERM {
		c.noMarks.Store(true)
	}
}

// IsMarked reports whether an open file has the mark of files that trees can share.
func IsMarked(fd int) bool {
	_, err := unix.Fgetxattr(fd, xattr.Shared, nil)
	return err == nil
}

// isMarkedIn reports whether a file in an open folder is marked.
func isMarkedIn(folder int, name string) bool {
	_, err := unix.Lgetxattr(pathIn(folder, name), xattr.Shared, nil)
	return err == nil
}

// pathIn returns a path of a file in an open folder, for system calls that only take paths.
func pathIn(folder int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", folder, name) }

// unmark removes the mark of a file that gets another name. If the file's mode forbids that, unmark
// changes the mode for a moment.
func unmark(folder int, name string) error {
	fd, err := openAt(folder, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !IsMarked(fd) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return err
	}
	if err := unix.Fremovexattr(fd, xattr.Shared); err != nil {
		return err
	}
	return unix.Fchmod(fd, st.Mode&0o7777)
}
