package volume

import (
	"archive/tar"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// xattrRecord is the prefix of PAX records with extended attributes.
const xattrRecord = "SCHILY.xattr."

// attributes sets the owner, extended attributes and mode of an open file, in this order: a new
// owner removes capabilities and set-id bits.
func (u *unpacker) attributes(fd int, h *tar.Header) error {
	mode := uint32(h.Mode) & 0o7777
	err := u.setOwner(h, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) }, func(st *unix.Stat_t) error { return unix.Fstat(fd, st) }, &mode)
	if err != nil {
		return err
	}
	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, xattrRecord)
		if !ok || !xattr.Portable(name) {
			continue
		}
		switch err := unix.Fsetxattr(fd, name, []byte(value), 0); err {
		case nil:
		case unix.EOPNOTSUPP, unix.EPERM, unix.EINVAL:
			u.counts.Lost++
		default:
			return os.NewSyscallError("setxattr", err)
		}
	}
	return os.NewSyscallError("chmod", unix.Fchmod(fd, mode))
}

// setOwner sets the owner of an entry. If the file system does not allow that, setOwner removes the
// set-id bits from mode. mode is nil for a symbolic link.
func (u *unpacker) setOwner(h *tar.Header, chown func(uid, gid int) error, stat func(*unix.Stat_t) error, mode *uint32) error {
	uid, gid := h.Uid, h.Gid
	if u.owner != nil {
		uid, gid = u.owner.UID, u.owner.GID
	}
	if int(uint32(uid)) != uid || int(uint32(gid)) != gid || uint32(uid) == 1<<32-1 || uint32(gid) == 1<<32-1 {
		return Invalid("its owner is invalid")
	}
	if chown(uid, gid) == nil {
		return nil
	}
	var st unix.Stat_t
	if err := stat(&st); err != nil {
		return os.NewSyscallError("stat", err)
	}
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	if os.Geteuid() == 0 {
		u.counts.Lost++
	}
	if mode != nil {
		*mode &= 0o1777
	}
	return nil
}

// setTime sets the modification time of a directory entry.
func setTime(dir int, name string, h *tar.Header) error {
	at := unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW))
}
