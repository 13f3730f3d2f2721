package volume

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// slots are the places in a change's folder: each has what is staged for one step, under its new name, and what that step has put aside, under its old one. By
// what is there, a step that is done is told from one that is not.
type slots struct {
	used   uint32
	folder openFolder
}

// slotsPerFolder is how many are in one folder: file systems are slow with too many.
const slotsPerFolder = 1024

// openFolder is a folder that is kept open, since what comes next is often in it too.
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

// names of what is staged in a slot, and of what was put aside.
func staged(slot uint32) string { return "new-" + strconv.FormatUint(uint64(slot%slotsPerFolder), 10) }
func aside(slot uint32) string  { return "old-" + strconv.FormatUint(uint64(slot%slotsPerFolder), 10) }

// newSlot takes the next slot.
func (c *change) newSlot() (slot uint32, dir int, err error) {
	slot = c.slots.used
	if slot%slotsPerFolder == 0 {
		if err := c.does("make a folder of slots"); err != nil {
			return 0, -1, err
		}
		if err := unix.Mkdirat(int(c.dir.Fd()), folderOf(slot), 0o700); err != nil {
			return 0, -1, &os.PathError{Op: "mkdir", Path: pendingFolder, Err: err}
		}
	}
	c.slots.used++
	dir, err = c.slotFolder(slot)
	return slot, dir, err
}

func folderOf(slot uint32) string { return strconv.FormatUint(uint64(slot/slotsPerFolder), 10) }

// slotFolder opens the folder that a slot is in.
func (c *change) slotFolder(slot uint32) (int, error) {
	name := folderOf(slot)
	return c.slots.folder.enter(name, func() (int, error) {
		fd, err := unix.Openat(int(c.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: pendingFolder, Err: err}
		}
		return fd, nil
	})
}

// parentFolder opens the folder of the workspace that a path is in, where no link leads, and gives the path's last part.
func (c *change) parentFolder(path string) (dir int, last string, err error) {
	name, last := parentOf(path)
	dir, err = c.parent.enter(name, func() (int, error) {
		return c.volume.openFD(name, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	})
	return dir, last, err
}

// there tells what is at a name of a folder; errNothing: nothing.
func there(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if missing(err) {
		err = errNothing
	}
	return st, err
}

func isThere(dir int, name string) (bool, error) {
	_, err := there(dir, name)
	if err == errNothing {
		return false, nil
	}
	return err == nil, err
}

var errNothing = errors.New("there is nothing")

// missing tells whether an error says that there is nothing at a path: also where what is above it is no folder.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
