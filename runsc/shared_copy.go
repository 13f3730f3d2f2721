package main

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/fsutil"
)

// copyBuffer is the size of one read of a copy, in bytes.
const copyBuffer = 128 << 10

// fill copies the content and the attributes of a file to a new one. The gofer's filter allows
// neither copies in the kernel nor shared blocks.
func (s *sharing) fill(to, from int, content bool) error {
	var stat unix.Stat_t
	if err := fstat(from, &stat); err != nil {
		return err
	}
	if content {
		if err := copyContent(to, from, stat.Size); err != nil {
			return err
		}
	}
	if err := s.copyAttributes(to, from, &stat); err != nil {
		return err
	}
	if s.flushes {
		return unix.Fsync(to)
	}
	return nil
}

// copyContent copies size bytes, without the holes.
func copyContent(to, from int, size int64) error {
	if err := unix.Ftruncate(to, size); err != nil {
		return err
	}
	buffer := make([]byte, min(size, copyBuffer))
	for at := int64(0); at < size; {
		begin, err := unix.Seek(from, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // the rest is a hole
			return nil
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(from, begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for at = begin; at < end; {
			n, err := unix.Pread(from, buffer[:min(end-at, copyBuffer)], at)
			if err != nil {
				return err
			}
			if n == 0 {
				return unix.EIO
			}
			if n, err = unix.Pwrite(to, buffer[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

// copyAttributes copies the owner, the extended attributes, the mode and the times. Changing the
// owner would clear bits of the mode, and a write would change the times.
func (s *sharing) copyAttributes(to, from int, stat *unix.Stat_t) error {
	if err := unix.Fchownat(to, "", int(stat.Uid), int(stat.Gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(from, names)
	if err != nil && err != unix.EOPNOTSUPP {
		return err
	}
	for name := range bytes.SplitSeq(names[:max(n, 0)], []byte{0}) {
		if err := s.copyAttribute(to, from, string(name)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(to, stat.Mode&0o7777); err != nil {
		return err
	}
	return fsutil.Utimensat(to, "", [2]unix.Timespec{stat.Atim, stat.Mtim}, 0)
}

// copyAttribute copies an extended attribute that the machine can set. All others belong to the
// host.
func (s *sharing) copyAttribute(to, from int, name string) error {
	if s.isOwn(name) || !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_") {
		return nil
	}
	value := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(from, name, value)
	if err != nil {
		return err
	}
	return unix.Fsetxattr(to, name, value[:n], 0)
}
