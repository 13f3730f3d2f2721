package tree

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Writer writes the entries of an archive into one or several destination folders, which all get
// the same content. It never writes outside of them: it opens names folder by folder, follows no
// symbolic links and replaces no entries. The caller owns all files. The copies of a file in
// several destinations share blocks if the file system supports it.
//
// A Writer is not safe for concurrent use. Close stops its goroutines.
type Writer struct {
	Sync  bool  // flush each file after writing it
	Stats Stats // counts the added entries; Skipped and Special stay 0

	tops    []int
	path    string       // path of the current folder
	current *openFolders // descriptors of the current folder, or nil if there is none
	folders []folder
	pool    *writePool
	buffer  []byte // buffer for files that are too large for the pool
	marking bool   // mark the files
}

// folder is a folder that Add created. Finish sets its mode and time.
type folder struct {
	name  string
	mode  uint32
	mtime unix.Timespec
}

// NewWriter returns a writer for the given open folders, at least one. It does not close the
// folders. The caller must close the writer.
func NewWriter(folders ...*os.File) (*Writer, error) {
	w := &Writer{pool: newWritePool()}
	for _, f := range folders {
		fd, err := openAt(int(f.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			w.Close()
			return nil, withPath(err, "write folder", f.Name())
		}
		w.tops = append(w.tops, fd)
	}
	return w, nil
}

// Close stops the writer and closes its descriptors. It does not remove the added entries.
func (w *Writer) Close() {
	w.pool.close()
	w.leave()
	closeAll(w.tops)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Add adds a regular file, folder, symbolic link or hard link. The name of the entry and the target
// of a hard link must be relative to the destination, in the form that path.Clean returns. The
// parent folder must exist. The target of a hard link must be an existing regular file.
//
// Apart from these, Add uses only two fields of the header: the modification time, and the mode
// with its set-id and sticky bits.
//
// The error can belong to an earlier entry. It contains the name of the entry. If an entry is
// invalid, the error has kind Invalid. Add wraps errors from content.
func (w *Writer) Add(header *tar.Header, content io.Reader) error {
	if err := w.pool.failed(); err != nil {
		return err
	}
	return entryError(w.add(header, content), header.Name)
}

// entryError adds the name of the entry to an error. It replaces some kernel errors with a
// description.
func entryError(err error, name string) error {
	known := (*fault.Error)(nil)
	switch {
	case err == nil || errors.As(err, &known) && known.Subject != "":
		return err
	case errors.Is(err, unix.EEXIST):
		err = invalid("an entry of this name exists already")
	case errors.Is(err, unix.ENOENT):
		err = invalid("its folder does not exist")
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		err = invalid("a parent is a link, or not a folder")
	}
	return &fault.Error{Op: "write", Subject: shortened(name), Err: err}
}

func invalid(cause string) error { return &fault.Error{Kind: fault.Invalid, Err: errors.New(cause)} }

func (w *Writer) add(header *tar.Header, content io.Reader) error {
	dir, base, err := split(header.Name)
	if err != nil {
		return err
	}
	if err := w.enter(dir); err != nil {
		return err
	}
	mtime, err := unix.TimeToTimespec(header.ModTime)
	if err != nil {
		return invalid("invalid modification time")
	}
	mode := uint32(header.Mode) & 0o7777
	switch header.Typeflag {
	case tar.TypeReg:
		w.Stats.Files++
		w.Stats.Bytes += header.Size
		return w.file(file{header.Name, base, mode, mtime, w.Sync, w.marking}, header.Size, content)
	case tar.TypeDir:
		w.Stats.Folders++
		w.folders = append(w.folders, folder{header.Name, mode, mtime})
		return w.current.each(func(fd int) error { return unix.Mkdirat(fd, base, 0o700) })
	case tar.TypeSymlink:
		w.Stats.Symlinks++
		return w.symlink(base, header.Linkname, mtime)
	case tar.TypeLink:
		w.Stats.Links++
		return w.link(base, header.Linkname)
	}
	return invalid("unknown kind of entry")
}

// split splits a name into its folder and its last part. It fails if the name points outside of the
// destination.
func split(name string) (dir, base string, err error) {
	if len(name) >= maxPath {
		return "", "", invalid("the name is too long")
	}
	for part := range strings.SplitSeq(name, "/") {
		if invalidName(part) {
			return "", "", invalid("invalid name")
		}
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:], nil
	}
	return "", name, nil
}

// enter makes dir the current folder.
func (w *Writer) enter(dir string) error {
	if w.current != nil && w.path == dir {
		return nil
	}
	fds, err := w.open(dir)
	if err != nil {
		return err
	}
	w.leave()
	w.path, w.current = dir, newOpenFolders(fds)
	return nil
}

// open opens a folder in each destination.
func (w *Writer) open(dir string) (fds []int, err error) {
	var names []string
	if dir != "" {
		names = strings.Split(dir, "/")
	}
	for _, top := range w.tops {
		fd, err := descend(top, names)
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func (w *Writer) leave() {
	if w.current != nil {
		w.current.release()
		w.current = nil
	}
}

func (w *Writer) symlink(base, target string, mtime unix.Timespec) error {
	if target == "" || len(target) >= maxPath || strings.Contains(target, "\x00") {
		return invalid("invalid link target")
	}
	return w.current.each(func(fd int) error {
		if err := unix.Symlinkat(target, fd, base); err != nil {
			return err
		}
		return touch(fd, base, mtime)
	})
}

// link adds a hard link to a file that Add created before.
func (w *Writer) link(base, target string) error {
	if err := w.pool.wait(); err != nil {
		return err
	}
	dir, name, err := split(target)
	if err != nil {
		return err
	}
	from, err := w.open(dir)
	if err != nil {
		return invalid("the target of the hard link is not an existing file")
	}
	defer closeAll(from)
	for i, fd := range from {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return invalid("the target of the hard link is not an existing file")
		}
		if w.marking {
			if err := unmark(fd, name); err != nil {
				return err
			}
		}
		if err := unix.Linkat(fd, name, w.current.fds[i], base, 0); err != nil {
			return err
		}
	}
	return nil
}

// Finish waits until all files are written. Then it sets the modes and times of the folders that
// Add created. It processes each folder before its parent.
func (w *Writer) Finish() error {
	if err := w.pool.wait(); err != nil {
		return err
	}
	for _, f := range slices.Backward(w.folders) {
		if err := w.finish(f); err != nil {
			return withPath(err, "write", f.name)
		}
	}
	w.folders = nil
	return nil
}

func (w *Writer) finish(f folder) error {
	dir, base, err := split(f.name)
	if err != nil {
		return err
	}
	if err := w.enter(dir); err != nil {
		return err
	}
	return w.current.each(func(folder int) error {
		fd, err := openAt(folder, base, folderFlags, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := touch(fd, ".", f.mtime); err != nil {
			return err
		}
		return unix.Fchmod(fd, f.mode)
	})
}
