package volume

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// Pack writes the entry at an absolute path below root, and everything below it, as a tar archive
// with owners and extended attributes. It follows a link at the end of the path only if a slash or
// "/." follows. The parameter as is a single name or ".", and all names in the archive begin with
// it.
//
// Pack omits sockets, pipes and devices, and the content of file systems that the kernel generates,
// such as /proc.
func Pack(to io.Writer, root int, name, as string) (TreeCounts, error) {
	folder, base := path.Dir(name), path.Base(name)
	if last := name[strings.LastIndexByte(name, '/')+1:]; last == "" || last == "." || last == ".." {
		folder, base = name, "."
	}
	dir, err := OpenIn(root, folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return TreeCounts{}, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return TreeCounts{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if kindOf(st.Mode).Special() {
		return TreeCounts{}, &os.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	}
	w := newTreeWriter(to)
	w.xattrs = new(xattrReader)
	err = w.end(w.entry(int(dir.Fd()), base, as))
	return w.counts, err
}

// maxList is the maximum size of a list of paths in bytes.
const maxList = 256 << 20

// PackList writes the entries that a list names as a tar archive like [Pack], without the content
// of directories. The list is a file at an absolute path below root. It contains paths below root,
// each followed by a NUL. PackList omits entries that no longer exist, and does not follow links.
func PackList(to io.Writer, root int, list string) (TreeCounts, error) {
	file, err := OpenRegular(root, list)
	if err != nil {
		return TreeCounts{}, err
	}
	defer file.Close()
	w := newTreeWriter(to)
	w.xattrs, w.alone = new(xattrReader), true
	lines := bufio.NewReader(io.LimitReader(file, maxList))
	for {
		name, err := lines.ReadString(0)
		if err == io.EOF && name == "" {
			return w.counts, w.end(nil)
		}
		if err != nil {
			return w.counts, err
		}
		name = strings.TrimSuffix(name, "\x00")
		if name != "." && CheckRelative(name) != nil {
			return w.counts, Invalid("the list has an invalid path")
		}
		if err := w.listed(root, name); err != nil {
			return w.counts, err
		}
	}
}

// listed writes one entry of a list.
func (w *treeWriter) listed(root int, name string) error {
	dir, err := OpenIn(root, "/"+path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil && Vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return w.entry(int(dir.Fd()), path.Base(name), name)
}

// generated reports whether the kernel generates the content of a directory.
func generated(dir int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dir, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return true
	}
	return false
}

// attribute is an extended attribute.
type attribute struct{ name, value string }

// maxXattrs limits the extended attributes of a file, in bytes. [archive/tar] does not read headers
// of more than 1 MiB.
const maxXattrs = 512 << 10

// xattrReader reads extended attributes. Its zero value is ready for use.
type xattrReader struct {
	names, value []byte
}

// read returns the extended attributes of an open file that have a meaning in every machine. It
// does nothing if r is nil.
func (r *xattrReader) read(fd int) (all []attribute, err error) {
	if r == nil {
		return nil, nil
	}
	if r.names == nil {
		r.names, r.value = make([]byte, 64<<10), make([]byte, 64<<10)
	}
	n, err := unix.Flistxattr(fd, r.names)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	total := 0
	for name := range bytes.SplitSeq(bytes.TrimRight(r.names[:n], "\x00"), []byte{0}) {
		if !xattr.Portable(string(name)) || bytes.IndexByte(name, '=') >= 0 {
			continue
		}
		n, err := unix.Fgetxattr(fd, string(name), r.value)
		if err == unix.ENODATA || err == unix.EOPNOTSUPP || err == unix.EPERM {
			continue
		}
		if err != nil {
			return nil, err
		}
		if total += len(name) + n; total > maxXattrs {
			return nil, unix.E2BIG
		}
		all = append(all, attribute{string(name), string(r.value[:n])})
	}
	return all, nil
}
