package volume

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// slots allocates slots in the directory of a change. A slot can contain the staged file of a step
// and the file that the step has replaced, under different names. These files tell recovery which
// steps are done.
type slots struct {
	used   uint32
	folder openFolder
}

// slotsPerFolder is the maximum number of slots in one directory. It exists because file systems
// are slow with many entries.
const slotsPerFolder = 1024

// openFolder caches the directory that was opened last, because consecutive paths often share a
// directory.
type openFolder struct {
	name string
	fd   int
	open bool
}

func (f *openFolder) enter(name string, open func() (int, error)) (int, error) {
	if f.open && f.name == name {
		return f.fd, nil
	}
	f.leave()
	fd, err := open()
	if err != nil {
		return -1, err
	}
	f.name, f.fd, f.open = name, fd, true
	return fd, nil
}

func (f *openFolder) leave() {
	if f.open {
		unix.Close(f.fd)
		f.open = false
	}
}

// Names of the staged file and of the replaced file in a slot.
func stagedName(slot uint32) string {
	return "new-" + strconv.FormatUint(uint64(slot%slotsPerFolder), 10)
}
func replacedName(slot uint32) string {
	return "old-" + strconv.FormatUint(uint64(slot%slotsPerFolder), 10)
}

// newSlot allocates the next slot.
func (c *change) newSlot() (slot uint32, err error) {
	slot = c.slots.used
	if slot == maxSteps {
		return 0, Invalid(fmt.Sprintf("a change has at most %d files and directories", maxSteps))
	}
	if slot%slotsPerFolder == 0 {
		if err := c.beforeWrite("make a folder of slots"); err != nil {
			return 0, err
		}
		if err := unix.Mkdirat(int(c.dir.Fd()), folderOf(slot), 0o700); err != nil {
			return 0, &os.PathError{Op: "mkdir", Path: PendingFolder, Err: err}
		}
	}
	c.slots.used++
	return slot, nil
}

func folderOf(slot uint32) string { return strconv.FormatUint(uint64(slot/slotsPerFolder), 10) }

// slotFolder opens the directory of a slot. The descriptor is valid until the next call.
func (c *change) slotFolder(slot uint32) (int, error) {
	name := folderOf(slot)
	return c.slots.folder.enter(name, func() (int, error) {
		fd, err := unix.Openat(int(c.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: PendingFolder, Err: err}
		}
		return fd, nil
	})
}

// parentFolder opens the parent directory of a path in the workspace, without following links. It
// also returns the last path component.
func (c *change) parentFolder(path string) (dir int, last string, err error) {
	name, last := parentOf(path)
	dir, err = c.parent.enter(name, func() (int, error) {
		return c.volume.openFD(name, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	})
	return dir, last, err
}

// lstatAt describes a directory entry. It returns errNoEntry if there is no entry.
func lstatAt(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if isMissing(err) {
		err = errNoEntry
	}
	return st, err
}

func existsAt(dir int, name string) (bool, error) {
	_, err := lstatAt(dir, name)
	if err == errNoEntry {
		return false, nil
	}
	return err == nil, err
}

var errNoEntry = errors.New("no such entry")

// isMissing reports whether an error means that a path does not exist. This includes paths that
// continue below a file or a link.
func isMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
