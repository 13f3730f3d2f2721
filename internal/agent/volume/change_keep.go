package volume

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// keepReplaced puts the old file of a step into the slot, and checks that it is the expected one.
// Links and copies leave the file at its path, so that other programs always find it. A file is
// moved only if it can't be copied, for example a special file.
func (c *change) keepReplaced(s *step, at location) error {
	linked, err := c.linkReplaced(s, at)
	if err != nil {
		return err
	}
	if !linked {
		if c.copyReplaced(s, at) == nil {
			c.copied[s.path] = true
			return nil
		}
		if err := c.move(at.dir, at.name, at.slot, replacedName(s.slot)); err != nil {
			return err
		}
	}
	return c.verifyReplaced(s, at)
}

// linkReplaced creates a hard link to the old file, and reports whether the file system can do
// that. gVisor refuses to link a file if its first name was removed. It also can't read such a
// symbolic link, so an undone change would damage the link.
func (c *change) linkReplaced(s *step, at location) (bool, error) {
	if c.volume.fsKind == PassthroughFS {
		st, err := lstatAt(at.dir, at.name)
		if err == errNoEntry {
			return false, errModified
		}
		if err != nil || kindOf(st.Mode) != listing.File {
			return false, err
		}
	}
	err := c.beforeWrite("put aside")
	if err == nil {
		err = unix.Linkat(at.dir, at.name, at.slot, replacedName(s.slot), 0)
	}
	switch err {
	case unix.EPERM, unix.EOPNOTSUPP, unix.EMLINK, unix.ENOSYS, unix.EINVAL:
		return false, nil
	}
	return err == nil, err
}

// copyReplaced puts a copy of the old file into the slot: of its content, owner, mode and time. The
// copy gets its name when it is complete and flushed. A file with several names is not copied,
// because an undone change must keep the names together.
func (c *change) copyReplaced(s *step, at location) error {
	name := replacedName(s.slot) + "-copy"
	if err := c.unlink(at.slot, name, 0); err != nil {
		return err
	}
	st, err := lstatAt(at.dir, at.name)
	if err != nil {
		return err
	}
	if err := c.beforeWrite("copy the replaced file"); err != nil {
		return err
	}
	switch kind := kindOf(st.Mode); {
	case st.Nlink == 1 && kind == listing.File:
		err = copyContent(at, name, st.Size)
	case st.Nlink == 1 && kind == listing.Link:
		err = copyLink(at, name)
	default:
		err = unix.EMLINK
	}
	if err == nil {
		err = copyAttributes(at.slot, name, &st)
	}
	if err != nil {
		return err
	}
	after, err := lstatAt(at.dir, at.name)
	if err != nil {
		return err
	}
	if *statOf(&st) != *statOf(&after) || !s.expects(&after) {
		return errModified
	}
	return c.move(at.slot, name, at.slot, replacedName(s.slot))
}

// copyContent copies the content of a regular file to a new file in the slot.
func copyContent(at location, name string, size int64) error {
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_NOFOLLOW|readFlags, 0)
	if err != nil {
		return err
	}
	from, err := onlyRegular(os.NewFile(uintptr(fd), at.name))
	if err != nil {
		return err
	}
	defer from.Close()
	if fd, err = unix.Openat(at.slot, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), name)
	defer to.Close()
	if _, err := io.CopyN(to, from, size); err != nil {
		return err
	}
	return to.Sync()
}

// copyLink copies a symbolic link to the slot.
func copyLink(at location, name string) error {
	target := make([]byte, listing.MaxPath+1)
	n, err := unix.Readlinkat(at.dir, at.name, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), at.slot, name)
}

// copyAttributes copies the owner, mode and time of another entry to an entry of the slot.
func copyAttributes(slot int, name string, st *unix.Stat_t) error {
	if err := unix.Fchownat(slot, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if kindOf(st.Mode) == listing.File {
		if err := unix.Fchmodat(slot, name, st.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(slot, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
