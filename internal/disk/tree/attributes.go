package tree

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

// mode is what the copy of something may have of its permissions: the set-id bits not where the copy has another owner.
func (c *copier) mode(st *unix.Stat_t) uint32 {
	mode := st.Mode & 0o7777
	if !c.root && st.Uid != c.uid {
		mode &^= unix.S_ISUID
	}
	if !c.root && st.Gid != c.gid {
		mode &^= unix.S_ISGID
	}
	return mode
}

// attributes gives a copy the owner of its original, and then its extended attributes: a change of owner takes set-id bits and capabilities away. Its
// mode has to be set after that, for the user's own attributes need one that allows writing.
func (c *copier) attributes(dst, src int, st *unix.Stat_t) error {
	if c.root {
		if err := unix.Fchown(dst, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	n, err := unix.Flistxattr(src, c.names)
	if err == unix.EOPNOTSUPP || n == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(c.names[:n], "\x00"), []byte{0}) {
		if err := c.attribute(dst, src, string(name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) attribute(dst, src int, name string) error {
	switch {
	case strings.HasPrefix(name, "user."), strings.HasPrefix(name, "system.posix_acl_"):
	case c.root && (name == "security.capability" || strings.HasPrefix(name, "trusted.")):
	default:
		return nil
	}
	n, err := unix.Fgetxattr(src, name, c.buffer)
	if err == unix.ENODATA {
		return errChanged
	}
	if err != nil {
		return err
	}
	return unix.Fsetxattr(dst, name, c.buffer[:n], 0)
}

// touch gives a name in a folder its time of modification. That of access stays.
func touch(folder int, name string, mtime unix.Timespec) error {
	return unix.UtimesNanoAt(folder, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}, unix.AT_SYMLINK_NOFOLLOW)
}
