package volume

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
)

// FileSpec says which file to write.
type FileSpec struct {
	Path        string
	Mode        uint32 // 0: that of the file that is replaced, 0644 for a new one
	MakeParents bool
	Size        uint64 // of the whole in bytes, or UnknownSize
}

// UnknownSize is the size of content that ends where its stream ends.
const UnknownSize = math.MaxUint64

// Replacement is a file that is written beside its place, or in a volume where changes are staged.
type Replacement struct {
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

// NewReplacement begins to replace a file below a root folder. It is written beside its place.
func NewReplacement(root int, spec FileSpec) (*Replacement, error) {
	return begin(foldersIn(root), nil, spec)
}

// begin begins a replacement. open opens folders; staging is where the file is written, nil: beside its place.
func begin(open func(folder string) (*os.File, error), staging *os.File, spec FileSpec) (*Replacement, error) {
	dirname, name := path.Split(spec.Path)
	dir, err := folderAt(open, dirname, spec.MakeParents)
	if err != nil {
		return nil, err
	}
	if staging == nil {
		staging = dir
	}
	w := &Replacement{dir: dir, staging: staging, name: name, mode: spec.Mode, size: spec.Size, uid: -1, gid: -1}
	var st unix.Stat_t
	switch err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		dir.Close()
		return nil, &os.PathError{Op: "write", Path: spec.Path, Err: ErrNotRegular}
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
		return nil, &os.PathError{Op: "write", Path: spec.Path, Err: err}
	}
	w.file = os.NewFile(uintptr(fd), spec.Path)
	return w, nil
}

// MakeFolder makes a folder below a root folder, and those above it. One that is there stays as it is.
func MakeFolder(root int, name string) error {
	dir, err := folderAt(foldersIn(root), name, true)
	if err == nil {
		dir.Close()
	}
	return err
}

func foldersIn(root int) func(name string) (*os.File, error) {
	return func(name string) (*os.File, error) { return OpenIn(root, name, unix.O_PATH|unix.O_DIRECTORY, 0) }
}

// folderAt opens a folder, by open, and makes it and those above it if they are missing and make says so.
func folderAt(open func(folder string) (*os.File, error), name string, make bool) (*os.File, error) {
	dir, err := open(name)
	if errors.Is(err, unix.ENOENT) && make {
		if err = makeFolders(open, name); err != nil {
			return nil, err
		}
		if dir, err = open(name); errors.Is(err, unix.ENOENT) { // a link that leads nowhere
			err = &os.PathError{Op: "open", Path: strings.TrimRight(name, "/"), Err: ErrNoFolder}
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
			return &os.PathError{Op: "open", Path: name[:i], Err: ErrNoFolder}
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
func (w *Replacement) Write(p []byte) (int, error) {
	if uint64(len(p)) > w.size-w.written {
		return 0, ErrLength
	}
	n, err := w.file.Write(p)
	w.written += uint64(n)
	return n, err
}

// ErrLength says that content has another length than its sender announced.
const ErrLength = Invalid("the content is not as long as it was said to be")

// Finish commits what was written without an error, where it is the whole.
func (w *Replacement) Finish(ctx context.Context, err error) error {
	if err == nil && w.written != w.size && w.size != UnknownSize {
		err = ErrLength
	}
	if err != nil {
		return err
	}
	return w.commit(ctx)
}

// commit gives the file its name, once its content is on the disk.
func (w *Replacement) commit(ctx context.Context) error {
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

func (w *Replacement) rename() error {
	if err := unix.Renameat(int(w.staging.Fd()), w.temporary, int(w.dir.Fd()), w.name); err != nil {
		return &os.PathError{Op: "rename", Path: w.name, Err: err}
	}
	w.temporary = ""
	return nil
}

// commitInVolume keeps out of the way of changes, and has the name on the disk too.
func (w *Replacement) commitInVolume(ctx context.Context) error {
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

// Discard closes the file and removes what was not committed.
func (w *Replacement) Discard() {
	w.file.Close()
	if w.temporary != "" {
		unix.Unlinkat(int(w.staging.Fd()), w.temporary, 0)
	}
	w.dir.Close()
}

// ErrNoFolder is the error for a path where a folder is needed.
var ErrNoFolder = errors.New("it is there already, and is no folder")
