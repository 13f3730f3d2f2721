package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/window"
)

// fileSpec says what file to make.
type fileSpec struct {
	path        string
	mode        uint32 // 0: that of the file that is replaced, 0644 for a new one
	makeParents bool
	size        uint64 // of the whole, or unknownSize
}

// unknownSize is that of content whose end is told only by its coming.
const unknownSize = math.MaxUint64

// replacement is a file that is written beside its place, or in a volume where changes are staged.
type replacement struct {
	dir       *os.File
	name      string // in dir
	staging   *os.File
	temporary string // in staging
	file      *os.File
	volume    *Volume // nil: there is none
	mode      uint32
	uid, gid  int // of the file that is replaced, -1 for a new one
	size      uint64
	written   uint64
}

func newReplacement(root int, spec fileSpec) (*replacement, error) {
	return begin(func(name string) (*os.File, error) { return openIn(root, name, unix.O_PATH|unix.O_DIRECTORY, 0) }, nil, spec)
}

// begin begins a replacement. open opens folders; staging is where the file is written, nil: beside its place.
func begin(open func(folder string) (*os.File, error), staging *os.File, spec fileSpec) (*replacement, error) {
	dirname, name := path.Split(spec.path)
	dir, err := folderAt(open, dirname, spec.makeParents)
	if err != nil {
		return nil, err
	}
	if staging == nil {
		staging = dir
	}
	w := &replacement{dir: dir, staging: staging, name: name, mode: spec.mode, size: spec.size, uid: -1, gid: -1}
	var st unix.Stat_t
	switch err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		dir.Close()
		return nil, &os.PathError{Op: "write", Path: spec.path, Err: errNotRegular}
	case err == nil:
		w.uid, w.gid = int(st.Uid), int(st.Gid)
		if w.mode == 0 {
			w.mode = st.Mode & 0o7777
		}
	case w.mode == 0:
		w.mode = 0o644
	}
	var random [8]byte
	rand.Read(random[:])
	w.temporary = ".pyro-" + hex.EncodeToString(random[:])
	fd, err := unix.Openat(int(staging.Fd()), w.temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		err = notCreated(int(staging.Fd()), err)
		dir.Close()
		return nil, &os.PathError{Op: "write", Path: spec.path, Err: err}
	}
	w.file = os.NewFile(uintptr(fd), spec.path)
	return w, nil
}

// folderAt opens a folder, by open, and makes it and those above it if they are missing and make says so.
func folderAt(open func(folder string) (*os.File, error), name string, make bool) (*os.File, error) {
	dir, err := open(name)
	if errors.Is(err, unix.ENOENT) && make {
		if err = makeFolders(open, name); err != nil {
			return nil, err
		}
		if dir, err = open(name); errors.Is(err, unix.ENOENT) { // a link that leads nowhere
			err = &os.PathError{Op: "open", Path: strings.TrimRight(name, "/"), Err: errNoFolder}
		}
	}
	if errors.Is(err, unix.ENOTDIR) {
		err = inTheWay(open, name, err)
	}
	return dir, err
}

// inTheWay returns an error that names the first part of a path that is no folder.
func inTheWay(open func(folder string) (*os.File, error), name string, err error) error {
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		dir, err := open(name[:i])
		if errors.Is(err, unix.ENOTDIR) {
			return &os.PathError{Op: "open", Path: name[:i], Err: errNoFolder}
		}
		if err == nil {
			dir.Close()
		}
	}
	return err
}

// makeFolders makes a folder and those above it.
func makeFolders(open func(folder string) (*os.File, error), name string) error {
	name = strings.TrimRight(name, "/")
	parent, last := path.Split(name)
	if last == "" {
		return nil // the root is there
	}
	dir, err := folderAt(open, parent, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkdirat(int(dir.Fd()), last, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: name, Err: notCreated(int(dir.Fd()), err)}
	}
	return nil
}

// notCreated returns why nothing could be created in a folder. Linux says of those of /proc, which take
// nothing new, what it says of a folder that was removed.
func notCreated(dir int, err error) error {
	var st unix.Stat_t
	if err == unix.ENOENT && unix.Fstat(dir, &st) == nil && st.Nlink > 0 {
		return unix.EPERM
	}
	return err
}

// Write takes the next part of the content, never more than the whole was said to be.
func (w *replacement) Write(p []byte) (int, error) {
	if uint64(len(p)) > w.size-w.written {
		return 0, errTooLong
	}
	n, err := w.file.Write(p)
	w.written += uint64(n)
	return n, err
}

var errTooLong = errors.New("the content is longer than it was said to be")

// finish commits what was written without an error, where it is the whole.
func (w *replacement) finish(ctx context.Context, err error) error {
	if err == errTooLong || err == window.ErrBroken || err == nil && w.written != w.size && w.size != unknownSize {
		return invalid("the content is not as long as it was said to be")
	}
	if err != nil {
		return err
	}
	return w.commit(ctx)
}

// commit gives the file its name, once its content is on the disk.
func (w *replacement) commit(ctx context.Context) error {
	if err := unix.Fchown(int(w.file.Fd()), w.uid, w.gid); err != nil {
		w.mode &= 0o777 // it is another's now: it must not run as its owner
	}
	if err := unix.Fchmod(int(w.file.Fd()), w.mode); err != nil {
		return &os.PathError{Op: "chmod", Path: w.name, Err: err}
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if w.volume != nil {
		return w.commitInVolume(ctx)
	}
	return w.rename()
}

func (w *replacement) rename() error {
	if err := unix.Renameat(int(w.staging.Fd()), w.temporary, int(w.dir.Fd()), w.name); err != nil {
		return &os.PathError{Op: "rename", Path: w.name, Err: err}
	}
	w.temporary = ""
	return nil
}

// commitInVolume keeps out of the way of changes, and has the name on the disk too.
func (w *replacement) commitInVolume(ctx context.Context) error {
	release, err := w.volume.Still(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := w.rename(); err != nil {
		return err
	}
	return syncFolder(int(w.dir.Fd()))
}

// syncFolder has what a folder holds on the disk, given a descriptor that may only say where it is.
func syncFolder(at int) error {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("fsync", unix.Fsync(fd))
}

// discard removes what was not committed.
func (w *replacement) discard() {
	w.file.Close()
	if w.temporary != "" {
		unix.Unlinkat(int(w.staging.Fd()), w.temporary, 0)
	}
	w.dir.Close()
}

// Replace replaces a small file of the place's own, in one write, where its folder is there. It is not flushed.
func Replace(root int, name, content string) error {
	f, err := openIn(root, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // an environment without /etc, or one that was deleted, has no use for it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(content)
	return err
}

// RemoveMatching removes the files of a folder whose names match a pattern of path.Match. That there is no folder is no error.
func RemoveMatching(root int, dirname, pattern string) error {
	dir, err := openIn(root, dirname, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if ok, _ := path.Match(pattern, name); !ok {
			continue
		}
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "unlink", Path: path.Join(dirname, name), Err: err}
		}
	}
	return err
}

// Unlink removes a symbolic link in the place, and leaves anything else that has its name. Replace follows links, to nowhere too.
func Unlink(root int, name string) error {
	dirname, base := path.Split(name)
	dir, err := openIn(root, dirname, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	err = unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.Unlinkat(int(dir.Fd()), base, 0)
	}
	if err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}
