package tree

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// mode returns the permission bits for a copy. It drops the set-id bits if the copy has another
// owner or group.
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

// attributes copies first the owner and then the extended attributes, because changing the owner
// clears capabilities. The caller must set the mode afterwards for two reasons: changing the owner
// also clears set-id bits, and setting user attributes requires a writable file.
func (w *copyWorker) attributes(dst, src int, st *unix.Stat_t) error {
	if w.root {
		if err := unix.Fchown(dst, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	n, err := unix.Flistxattr(src, w.names)
	if err == unix.EOPNOTSUPP || n == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(w.names[:n], "\x00"), []byte{0}) {
		if err := w.attribute(dst, src, string(name)); err != nil {
			return err
		}
	}
	return nil
}

// attribute copies one extended attribute. It skips attributes that the process is not allowed to
// set, and attributes that have a meaning only on the host.
func (w *copyWorker) attribute(dst, src int, name string) error {
	trusted := strings.HasPrefix(name, "trusted.") // also trusted.overlay: the copy is stored the same way
	if !xattr.Portable(name) && !trusted || !w.root && !strings.HasPrefix(name, "user.") && !xattr.ACL(name) {
		return nil
	}
	n, err := unix.Fgetxattr(src, name, w.buffer)
	if err == unix.ENODATA {
		return errChanged
	}
	if err != nil {
		return err
	}
	return unix.Fsetxattr(dst, name, w.buffer[:n], 0)
}

// touch sets the modification time of the entry name in a folder. It does not change the access
// time.
func touch(folder int, name string, mtime unix.Timespec) error {
	return unix.UtimesNanoAt(folder, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}, unix.AT_SYMLINK_NOFOLLOW)
}
