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

// Writer puts the entries of an archive into a folder, or into several the same, and nothing anywhere else: names are gone through folder by folder, no link is
// followed, nothing that exists is replaced. Files in several folders share their blocks where the file system can do that. All that it makes belongs to the
// caller. It is for one goroutine, and has some of its own until it is closed.
type Writer struct {
	Sync  bool  // each file is flushed when it has been written
	Stats Stats // of what was added, in each folder; Skipped and Special stay 0

	tops    []int
	at      string // the folder that was written to last
	place   *place // the same, open; nil: none
	folders []folder
	crew    *crew
	buffer  []byte // for files that are not the crew's
}

// folder is one that was made, with what it is to have when all is in it.
type folder struct {
	name  string
	mode  uint32
	mtime unix.Timespec
}

// NewWriter writes into open folders, one at least, which stay the caller's. The writer has to be closed.
func NewWriter(folders ...*os.File) (*Writer, error) {
	w := &Writer{crew: newCrew()}
	for _, f := range folders {
		fd, err := openAt(int(f.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			w.Close()
			return nil, named(err, "write folder", f.Name())
		}
		w.tops = append(w.tops, fd)
	}
	return w, nil
}

// Close closes what the writer has open. What it has made stays.
func (w *Writer) Close() {
	w.crew.close()
	w.leave()
	closeAll(w.tops)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Add adds a regular file, folder, symbolic or hard link. Its name, and what a hard link leads to, are relative to the writer's folder, as path.Clean gives
// them. The folder that it is in has to be there, and so has what a hard link leads to, a regular file. Of the header it takes these, the mode with its
// set-id and sticky bits, and the time of modification.
//
// The error may be that of an entry before, and names it. What can't be added because it, or what was before it, is not as it should be is one of kind
// Invalid; that of content comes back as it is, wrapped.
func (w *Writer) Add(header *tar.Header, content io.Reader) error {
	if err := w.crew.failed(); err != nil {
		return err
	}
	return explained(w.add(header, content), header.Name)
}

// explained says which entry could not be written, and why.
func explained(err error, name string) error {
	known := (*fault.Error)(nil)
	switch {
	case err == nil || errors.As(err, &known) && known.Subject != "":
		return err
	case errors.Is(err, unix.EEXIST):
		err = refused("there is something of this name already")
	case errors.Is(err, unix.ENOENT):
		err = refused("its folder is not there")
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		err = refused("a folder on its way is none, or a link")
	}
	return &fault.Error{Op: "write", Subject: shortened(name), Err: err}
}

func refused(why string) error { return &fault.Error{Kind: fault.Invalid, Err: errors.New(why)} }

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
		return refused("impossible time")
	}
	mode := uint32(header.Mode) & 0o7777
	switch header.Typeflag {
	case tar.TypeReg:
		w.Stats.Files++
		w.Stats.Bytes += header.Size
		return w.file(file{header.Name, base, mode, mtime, w.Sync}, header.Size, content)
	case tar.TypeDir:
		w.Stats.Folders++
		w.folders = append(w.folders, folder{header.Name, mode, mtime})
		return w.place.each(func(fd int) error { return unix.Mkdirat(fd, base, 0o700) })
	case tar.TypeSymlink:
		w.Stats.Symlinks++
		return w.symlink(base, header.Linkname, mtime)
	case tar.TypeLink:
		w.Stats.Links++
		return w.link(base, header.Linkname)
	}
	return refused("unknown kind of entry")
}

// split gives folder and last part of a name that leads downwards.
func split(name string) (dir, base string, err error) {
	if len(name) >= maxPath {
		return "", "", refused("its name is too long")
	}
	for part := range strings.SplitSeq(name, "/") {
		if badName(part) {
			return "", "", refused("this can't be a name")
		}
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:], nil
	}
	return "", name, nil
}

// enter opens the folder to write to.
func (w *Writer) enter(dir string) error {
	if w.place != nil && w.at == dir {
		return nil
	}
	fds, err := w.open(dir)
	if err != nil {
		return err
	}
	w.leave()
	w.at, w.place = dir, newPlace(fds)
	return nil
}

// open opens a folder in each of the writer's.
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
	if w.place != nil {
		w.place.leave()
		w.place = nil
	}
}

// file is a regular file to be written.
type file struct {
	name  string
	base  string
	mode  uint32
	mtime unix.Timespec
	sync  bool
}

// write makes the file in each of the folders: what is in it is filled into the first, and refilled from there into the others.
func (f file) write(folders []int, fill func(fd int) error, refill func(fd, first int) error) error {
	var made []int
	err := func() error {
		for _, folder := range folders {
			fd, err := openAt(folder, f.base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			if made = append(made, fd); len(made) == 1 {
				err = fill(fd)
			} else {
				err = refill(fd, made[0])
			}
			if err == nil {
				err = f.finish(folder, fd)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	for _, fd := range made {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// finish gives the file what it could not have while it was written.
func (f file) finish(folder, fd int) error {
	if err := unix.Fchmod(fd, f.mode); err != nil {
		return err
	}
	if err := touch(folder, f.base, f.mtime); err != nil || !f.sync {
		return err
	}
	return unix.Fsync(fd)
}

func (w *Writer) file(f file, size int64, content io.Reader) error {
	if size <= crewFile {
		buffer := w.crew.buffer()
		if _, err := io.ReadFull(content, buffer[:size]); err != nil {
			w.crew.free <- buffer
			return err
		}
		w.crew.jobs <- job{f, w.place.use(), buffer[:size]}
		return nil
	}
	if w.buffer == nil {
		w.buffer = make([]byte, 1<<20)
	}
	return f.write(w.place.fds, func(fd int) error {
		for at := int64(0); at < size; {
			n, err := io.ReadFull(content, w.buffer[:min(int64(len(w.buffer)), size-at)])
			if err != nil {
				return err
			}
			if err := writeAll(fd, w.buffer[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
		return nil
	}, func(fd, first int) error {
		if w.crew.clone(fd, first) {
			return nil
		}
		return stretch(fd, first, 0, size, w.buffer, func() error { return nil })
	})
}

func (w *Writer) symlink(base, text string, mtime unix.Timespec) error {
	if text == "" || len(text) >= maxPath || strings.Contains(text, "\x00") {
		return refused("a link can't hold this")
	}
	return w.place.each(func(fd int) error {
		if err := unix.Symlinkat(text, fd, base); err != nil {
			return err
		}
		return touch(fd, base, mtime)
	})
}

// link gives a file that was written a further name.
func (w *Writer) link(base, target string) error {
	if err := w.crew.settle(); err != nil {
		return err
	}
	dir, name, err := split(target)
	if err != nil {
		return err
	}
	from, err := w.open(dir)
	if err != nil {
		return refused("it is a hard link to a file that is not there")
	}
	defer closeAll(from)
	for i, fd := range from {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return refused("it is a hard link to a file that is not there")
		}
		if err := unix.Linkat(fd, name, w.place.fds[i], base, 0); err != nil {
			return err
		}
	}
	return nil
}

// Finish waits until all is written, and gives the folders that were added their modes and times, those within others first.
func (w *Writer) Finish() error {
	if err := w.crew.settle(); err != nil {
		return err
	}
	for _, f := range slices.Backward(w.folders) {
		if err := w.finish(f); err != nil {
			return named(err, "write", f.name)
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
	return w.place.each(func(folder int) error {
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
