package rootfolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
)

// extractor writes an image to a folder. The image is not trusted. Its folders form a tree, and its
// names contain no slashes. So each path below the field to consists of folders that the extractor
// itself has made.
type extractor struct {
	ctx   context.Context
	from  *ext4.FS
	to    string
	root  bool              // pyro runs as root
	links map[uint64]string // path of the first name, by inode number, for files with several names
}

// lostFound is the name of a folder that each ext4 file system has.
const lostFound = "lost+found"

// folder writes a folder and everything in it.
func (x *extractor) folder(name string) error {
	if err := x.ctx.Err(); err != nil {
		return context.Cause(x.ctx)
	}
	if err := os.Mkdir(filepath.Join(x.to, name), 0o700); err != nil {
		return err
	}
	entries, err := x.from.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name == "." && e.Name() == lostFound {
			continue
		}
		below := path.Join(name, e.Name())
		if e.IsDir() {
			err = x.folder(below)
		} else {
			err = x.file(below)
		}
		if err != nil {
			return err
		}
	}
	info, err := x.from.Stat(name)
	if err != nil {
		return err
	}
	return x.attributes(name, info.Sys().(*syscall.Stat_t))
}

// file writes a file that is not a folder. If pyro is not root, it leaves out devices.
func (x *extractor) file(name string) error {
	info, err := x.from.Lstat(name)
	if err != nil {
		return err
	}
	st, at := info.Sys().(*syscall.Stat_t), filepath.Join(x.to, name)
	if st.Nlink > 1 {
		if first, ok := x.links[st.Ino]; ok {
			return os.Link(first, at)
		}
	}
	switch kind := info.Mode().Type(); {
	case kind == 0:
		err = x.content(name, at)
	case kind == fs.ModeSymlink:
		var target string
		if target, err = x.from.ReadLink(name); err == nil {
			err = os.Symlink(target, at)
		}
	case kind&fs.ModeDevice != 0 && !x.root:
		return nil
	default:
		err = os.NewSyscallError("mknod", unix.Mknod(at, st.Mode, int(st.Rdev)))
	}
	if err != nil {
		return err
	}
	if st.Nlink > 1 {
		x.links[st.Ino] = at
	}
	return x.attributes(name, st)
}

// content copies a regular file. The copy has the same holes.
func (x *extractor) content(name, at string) (err error) {
	in, err := x.from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	sparse, ok := in.(interface {
		io.ReaderAt
		NextData(offset int64) (start, end int64, err error)
	})
	if !ok {
		return fmt.Errorf("%s: not a regular file", name)
	}
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for offset := int64(0); offset < info.Size(); {
		start, end, err := sparse.NextData(offset)
		if err == io.EOF || err == nil && start >= info.Size() {
			break
		}
		if err != nil {
			return err
		}
		part := io.NewSectionReader(sparse, start, min(end, info.Size())-start)
		if _, err := io.Copy(io.NewOffsetWriter(out, start), part); err != nil {
			return err
		}
		offset = end
	}
	return out.Truncate(info.Size())
}

// attributes sets the owner, extended attributes, mode and times of a file. It sets the owner
// first, because a change of owner would remove set-user-ID bits and capabilities.
func (x *extractor) attributes(name string, st *syscall.Stat_t) error {
	at, mode := filepath.Join(x.to, name), st.Mode&0o7777
	if x.root {
		if err := os.Lchown(at, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	} else {
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	attributes, err := x.from.Xattrs(name)
	if err != nil {
		return err
	}
	for key, value := range attributes {
		// In the image, access control lists have another format than in setxattr(2).
		if strings.HasPrefix(key, "system.") || !x.root && !strings.HasPrefix(key, "user.") {
			continue
		}
		if err := unix.Lsetxattr(at, key, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("set %s of %s: %w", key, name, err)
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(at, mode); err != nil {
			return &os.PathError{Op: "chmod", Path: at, Err: err}
		}
	}
	times := []unix.Timespec{{Sec: st.Atim.Sec, Nsec: st.Atim.Nsec}, {Sec: st.Mtim.Sec, Nsec: st.Mtim.Nsec}}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, at, times, unix.AT_SYMLINK_NOFOLLOW))
}
