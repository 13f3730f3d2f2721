package volume

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// TreeCounts counts the entries of a tree.
type TreeCounts struct {
	Entries int64
	Skipped int64 // sockets, pipes and devices
	Changed int64 // files that were modified while they were read
}

// treeWriter writes a tree as a tar archive.
type treeWriter struct {
	to     io.Writer
	names  map[inode]string // the first name of each file with several hard links, see [treeWriter.id]
	buffer []byte
	blocks tarBlocks
	xattrs *xattrReader // nil: without extended attributes
	alone  bool         // omit the content of directories
	counts TreeCounts
}

// maxTreePath is the maximum length of a path in an archive, in bytes. Processes can create paths
// that are longer than PATH_MAX, and each level needs memory and a descriptor.
const maxTreePath = 4 * listing.MaxPath

// treeBuffer is the size of the read buffer, in bytes.
const treeBuffer = 256 << 10

// inode identifies a file.
type inode struct {
	device, number uint64
	git            bool // the name of the file is in a folder named .git
}

// id returns the identity of a file. Without extended attributes, an archive can be for an export
// that leaves out folders named .git. So no file outside of them is a link to a file in them.
func (w *treeWriter) id(name string, st *unix.Stat_t) inode {
	return inode{uint64(st.Dev), st.Ino, w.xattrs == nil && strings.Contains("/"+name, "/.git/")}
}

// WriteTree writes an open file or directory, and everything below it, as a tar archive. name is
// the path of the file or directory. WriteTree does not follow links or block on pipes.
func WriteTree(to io.Writer, top *os.File, name string) (TreeCounts, error) {
	w := newTreeWriter(to)
	as := path.Base(name)
	if name == "" {
		as = "."
	}
	var st unix.Stat_t
	err := unix.Fstat(int(top.Fd()), &st)
	if err == nil {
		err = w.writeOpen(int(top.Fd()), as, &st)
	}
	return w.counts, w.end(err)
}

func newTreeWriter(to io.Writer) *treeWriter {
	return &treeWriter{to: to, names: map[inode]string{}, buffer: make([]byte, treeBuffer)}
}

// end writes the end of the archive, unless err is an error.
func (w *treeWriter) end(err error) error {
	if err == nil {
		_, err = w.to.Write(make([]byte, 2*tarBlock))
	}
	return err
}

// writeOpen writes an open file or directory.
func (w *treeWriter) writeOpen(fd int, name string, st *unix.Stat_t) error {
	switch kindOf(st.Mode) {
	case listing.File:
		return w.file(fd, name, st)
	case listing.Folder:
		xattrs, err := w.xattrs.read(fd)
		if err != nil {
			return &os.PathError{Op: "getxattr", Path: name, Err: err}
		}
		if err := w.header(tarEntry{kind: tarFolder, name: name + "/", st: st, xattrs: xattrs}); err != nil {
			return err
		}
		if w.alone || w.xattrs != nil && generated(fd) {
			return nil
		}
		return w.folder(fd, name)
	default:
		w.counts.Skipped++
		return nil
	}
}

func (w *treeWriter) header(e tarEntry) error {
	w.counts.Entries++
	_, err := w.to.Write(w.blocks.header(e))
	return err
}

// folder writes the content of a directory.
func (w *treeWriter) folder(dir int, name string) error {
	names, err := namesIn(dir)
	if err != nil {
		return &os.PathError{Op: "read", Path: name, Err: err}
	}
	for _, n := range names {
		if err := w.entry(dir, n, name+"/"+n); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names in a directory, in byte order.
func namesIn(dir int) ([]string, error) {
	if _, err := unix.Seek(dir, 0, io.SeekStart); err != nil {
		return nil, err
	}
	var names []string
	buffer, read := make([]byte, 32<<10), 0
	for {
		n, err := unix.Getdents(dir, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.ENOENT {
			return nil, err
		}
		if n <= 0 {
			slices.Sort(names)
			return names, nil
		}
		if read += n; read > maxNameBytes {
			return nil, unix.EOVERFLOW
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

// Vanished reports whether an error means that an entry was deleted or replaced.
func Vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)
}

// entry writes an entry and everything below it. It skips entries that no longer exist.
func (w *treeWriter) entry(dir int, base, name string) error {
	if len(name) > maxTreePath {
		return &os.PathError{Op: "open", Path: name[:listing.MaxPath], Err: unix.ENAMETOOLONG}
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
	case Vanished(err):
		return nil
	default:
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	switch kind := kindOf(st.Mode); {
	case kind == listing.Link:
		return w.link(dir, base, name, &st)
	case kind.Special():
		w.counts.Skipped++
		return nil
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|readFlags, 0)
	switch {
	case err == nil:
	case Vanished(err):
		return nil
	default:
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return w.writeOpen(fd, name, &st)
}

func (w *treeWriter) link(dir int, base, name string, st *unix.Stat_t) error {
	target := make([]byte, listing.MaxPath+1)
	n, err := unix.Readlinkat(dir, base, target)
	switch {
	case err == unix.EINVAL || err != nil && Vanished(err):
		return nil
	case err == nil && n > listing.MaxPath:
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return w.header(tarEntry{kind: tarSymlink, name: name, target: string(target[:n]), st: st})
}

// file writes a regular file. It writes exactly as many bytes as the header says. If the file has
// become shorter, file adds zeros.
func (w *treeWriter) file(fd int, name string, st *unix.Stat_t) error {
	id := w.id(name, st)
	if first, known := w.names[id]; known && st.Nlink > 1 {
		return w.header(tarEntry{kind: tarLink, name: name, target: first, st: st})
	}
	xattrs, err := w.xattrs.read(fd)
	if err != nil {
		return &os.PathError{Op: "getxattr", Path: name, Err: err}
	}
	data, holes, err := sparse.Of(fd, st)
	if err != nil {
		return &os.PathError{Op: "seek", Path: name, Err: err}
	}
	if !holes {
		data = sparse.Ranges{{Length: st.Size}}
	}
	if err := w.header(tarEntry{kind: tarFile, name: name, size: st.Size, holes: holes, data: data, st: st, xattrs: xattrs}); err != nil {
		return err
	}
	if st.Nlink > 1 {
		w.names[id] = name
	}
	for _, part := range data {
		if err := w.content(fd, name, part); err != nil {
			return err
		}
	}
	if padding := -data.Bytes() & (tarBlock - 1); padding > 0 {
		if _, err := w.to.Write(noBytes[:padding]); err != nil {
			return err
		}
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if after.Size != st.Size || after.Mtim != st.Mtim {
		w.counts.Changed++
	}
	return nil
}

// content writes a part of a file.
func (w *treeWriter) content(fd int, name string, part sparse.Range) error {
	for at, left := part.At, part.Length; left > 0; {
		b := w.buffer[:min(left, int64(len(w.buffer)))]
		n, err := unix.Pread(fd, b, at)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0: // the file has become shorter
			clear(b)
			n = len(b)
		}
		if _, err := w.to.Write(b[:n]); err != nil {
			return err
		}
		at, left = at+int64(n), left-int64(n)
	}
	return nil
}
