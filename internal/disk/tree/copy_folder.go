package tree

import (
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// copyWorker copies one folder after another. Its buffers are never shared.
type copyWorker struct {
	*copier
	buffer   []byte    // for file content and attribute values
	names    []byte    // for attribute names
	compared [2][]byte // for the content of files that are compared
}

func newCopyWorker(c *copier) *copyWorker {
	return &copyWorker{copier: c, buffer: make([]byte, smallFile), names: make([]byte, 64<<10)}
}

// finish sets the attributes, time and mode of a folder of the copy after its last part is
// complete. Creating an entry would change the time, and the mode could forbid new entries. parts
// is the number of incomplete parts of the folder, with the one that the caller has completed.
func (w *copyWorker) finish(to int, from *Folder, parts *atomic.Int32) error {
	if parts.Add(-1) > 0 {
		return nil
	}
	if err := w.attributes(to, from.fd, from.Stat); err != nil {
		return err
	}
	if err := touch(to, ".", from.Stat.Mtim); err != nil {
		return err
	}
	return unix.Fchmod(to, w.mode(from.Stat))
}

// folderCopy copies the entries of one folder, except subfolders.
type folderCopy struct {
	*copyWorker
	from    *Folder     // has its own descriptor, and no trail
	to      int         // the folder of the copy
	folder  *copyFolder // the same folder
	path    string      // of the source
	content []Entry
	parts   *atomic.Int32
	baseAt  int // the folder of the base with the same path; -1: there is none
	stats   Stats
	marking
}

// folderCopy returns the copy of a folder that is not copied yet. It has its own descriptors,
// because the walk goes on.
func (c *copier) folderCopy(from *Folder, content []Entry, parts *atomic.Int32) (*folderCopy, error) {
	src, err := duplicate(from.fd)
	if err != nil {
		return nil, err
	}
	to, err := duplicate(c.at.fd())
	if err != nil {
		unix.Close(src)
		return nil, err
	}
	return &folderCopy{
		from: &Folder{Stat: from.Stat, fd: src}, to: to, folder: c.folder, path: filepath.Join(c.src, from.Path("")), content: content, parts: parts, baseAt: -1,
	}, nil
}

func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func (f *folderCopy) close() {
	closeAll([]int{f.from.fd, f.to})
	if f.baseAt >= 0 {
		unix.Close(f.baseAt)
	}
}

func (f *folderCopy) run() error {
	f.baseAt = f.base.at(f.folder)
	f.findMark()
	for _, e := range f.content {
		if err := f.stopped(); err != nil {
			return err
		}
		if err := f.entry(e); err != nil {
			return withPath(err, "copy", filepath.Join(f.path, e.Name))
		}
	}
	if slices.ContainsFunc(f.content, func(e Entry) bool { return e.Kind == unix.S_IFREG }) {
		f.markFolders()
	}
	return withPath(f.finish(f.to, f.from, f.parts), "copy", f.path)
}

func (f *folderCopy) entry(e Entry) error {
	if e.Kind == unix.S_IFREG {
		return f.file(e)
	}
	return f.other(e)
}

func (f *folderCopy) file(e Entry) error {
	name := e.Name
	if folder, file, err := f.linksFrom(e); err != nil {
		return err
	} else if folder >= 0 {
		if done, err := f.shareFrom(folder, name, file); done || err != nil {
			return err
		}
	}
	src, st, err := f.from.Open(name)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	if st.Nlink > 1 {
		f.naming.Lock()
		defer f.naming.Unlock()
	}
	if done, err := f.link(name, &st); done || err != nil {
		f.unmarked++
		return err
	}
	if same, err := f.sameInBase(src, name, &st); err != nil {
		return err
	} else if same {
		f.unmarked++
		if done, err := f.shareFrom(f.baseAt, name, identity{}); done || err != nil {
			return err
		}
	}
	dst, err := openAt(f.to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	if err := f.data(dst, src, &st); err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(src, &after); err != nil {
		return err
	}
	if after.Size != st.Size || after.Mtim != st.Mtim {
		return errChanged
	}
	if err := f.attributes(dst, src, &st); err != nil {
		return err
	}
	if st.Nlink == 1 {
		f.mark(dst)
	} else {
		f.unmarked++
	}
	if err := unix.Fchmod(dst, f.mode(&st)); err != nil {
		return err
	}
	f.remember(name, &st)
	f.stats.Files++
	f.stats.Bytes += st.Size
	return touch(f.to, name, st.Mtim)
}

// other copies an entry that is neither a file nor a folder.
func (f *folderCopy) other(e Entry) error {
	st, err := f.from.Lstat(e)
	if err != nil {
		return err
	}
	if st.Nlink > 1 {
		f.naming.Lock()
		defer f.naming.Unlock()
	}
	if done, err := f.link(e.Name, &st); done || err != nil {
		return err
	}
	to := f.to
	if e.Kind == unix.S_IFLNK {
		text, err := f.from.Readlink(e.Name)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(text, to, e.Name); err != nil {
			return err
		}
		f.stats.Symlinks++
	} else {
		device := e.Kind == unix.S_IFCHR || e.Kind == unix.S_IFBLK
		err := unix.Mknodat(to, e.Name, e.Kind|0o600, int(st.Rdev))
		if device && errors.Is(err, unix.EPERM) { // Root in a user namespace cannot create devices either.
			f.stats.Skipped++
			return nil
		}
		if err != nil {
			return err
		}
		f.stats.Special++
	}
	f.remember(e.Name, &st)
	if f.root {
		if err := unix.Fchownat(to, e.Name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if e.Kind != unix.S_IFLNK {
		if err := unix.Fchmodat(to, e.Name, f.mode(&st), 0); err != nil {
			return err
		}
	}
	return touch(to, e.Name, st.Mtim)
}
