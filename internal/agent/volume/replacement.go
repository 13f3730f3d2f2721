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

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// FileSpec describes a file to write.
type FileSpec struct {
	Path        string
	Mode        uint32 // 0 keeps the mode of an existing file and gives a new one 0644
	MakeParents bool
	Size        uint64 // total size in bytes, or UnknownSize
}

// UnknownSize means that the content ends at the end of its stream.
const UnknownSize = math.MaxUint64

// Replacement is a file that atomically replaces another one. It is written next to the file that
// it replaces, or in the staging area of a volume.
type Replacement struct {
	dir       *os.File
	name      string // name in dir
	staging   *os.File
	temporary string // name in staging
	file      *os.File
	volume    *Volume // nil if the file is not in a volume
	mode      uint32
	uid, gid  int // owner of the existing file; -1 for a new file
	size      uint64
	written   uint64
}

// NewReplacement starts to replace a file below root. The new content is written next to that file.
func NewReplacement(root int, spec FileSpec) (*Replacement, error) {
	return newReplacement(foldersIn(root), nil, spec)
}

// newReplacement starts a replacement. It opens directories with the function open. The new content
// is written in the directory staging, or next to the replaced file if staging is nil.
func newReplacement(open func(folder string) (*os.File, error), staging *os.File, spec FileSpec) (*Replacement, error) {
	dir, name, err := followed(open, spec.Path, spec.MakeParents)
	if err != nil {
		return nil, err
	}
	if staging == nil {
		staging = dir
	}
	w := &Replacement{dir: dir, staging: staging, name: name, mode: spec.Mode, size: spec.Size, uid: -1, gid: -1}
	var st unix.Stat_t
	switch err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case name == "" || name == "." || name == ".." || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
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
		err = createError(int(staging.Fd()), err)
		dir.Close()
		return nil, &os.PathError{Op: "write", Path: spec.Path, Err: err}
	}
	w.file = os.NewFile(uintptr(fd), spec.Path)
	return w, nil
}

// maxLinks is the maximum number of symbolic links at the end of a path, as in Linux.
const maxLinks = 40

// followed opens the directory of the file to write, and returns the file's name in it. It follows
// symbolic links at the end of the path, as writing programs do. Missing directories in the target
// of a link are not created.
func followed(open func(folder string) (*os.File, error), at string, makeParents bool) (dir *os.File, name string, err error) {
	for range maxLinks {
		folder, name := path.Split(at)
		if dir, err = folderAt(open, folder, makeParents); err != nil {
			return nil, "", err
		}
		target := make([]byte, listing.MaxPath+1)
		n, err := unix.Readlinkat(int(dir.Fd()), name, target)
		if err != nil { // there is no entry, or no link
			return dir, name, nil
		}
		dir.Close()
		if target[0] == '/' {
			folder = ""
		}
		at, makeParents = folder+string(target[:n]), false
	}
	return nil, "", &os.PathError{Op: "write", Path: at, Err: unix.ELOOP}
}

// MakeFolder creates a directory below root, with its missing parents. It does not change an
// existing directory.
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

// folderAt opens a directory with the function open. If make is true, folderAt creates missing
// directories.
func folderAt(open func(folder string) (*os.File, error), name string, make bool) (*os.File, error) {
	dir, err := open(name)
	if errors.Is(err, unix.ENOENT) && make {
		if err = makeFolders(open, name); err != nil {
			return nil, err
		}
		if dir, err = open(name); errors.Is(err, unix.ENOENT) { // a dangling link
			err = &os.PathError{Op: "open", Path: strings.TrimRight(name, "/"), Err: ErrNoFolder}
		}
	}
	if errors.Is(err, unix.ENOTDIR) {
		err = firstNonFolder(open, name, err)
	}
	return dir, err
}

// firstNonFolder returns an error that names the first path component that is not a directory.
func firstNonFolder(open func(folder string) (*os.File, error), name string, err error) error {
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

// makeFolders creates a directory and its missing parents.
func makeFolders(open func(folder string) (*os.File, error), name string) error {
	name = strings.TrimRight(name, "/")
	parent, last := path.Split(name)
	if last == "" {
		return nil // the root exists
	}
	dir, err := folderAt(open, parent, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkdirat(int(dir.Fd()), last, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: name, Err: createError(int(dir.Fd()), err)}
	}
	return nil
}

// createError returns the reason why a directory does not accept a new entry. Linux returns ENOENT
// for a removed directory, but also for directories in /proc. For the latter, createError returns
// EPERM.
func createError(dir int, err error) error {
	var st unix.Stat_t
	if err == unix.ENOENT && unix.Fstat(dir, &st) == nil && st.Nlink > 0 {
		return unix.EPERM
	}
	return err
}

// Write appends content. If the content exceeds the announced size, Write returns ErrLength.
func (w *Replacement) Write(p []byte) (int, error) {
	if uint64(len(p)) > w.size-w.written {
		return 0, ErrLength
	}
	n, err := w.file.Write(p)
	w.written += uint64(n)
	return n, err
}

// ErrLength means that the length of the content differs from the announced size.
const ErrLength = Invalid("the length of the content differs from the announced size")

// Finish moves the file into place if err is nil and the content is complete. Otherwise it returns
// an error.
func (w *Replacement) Finish(ctx context.Context, err error) error {
	if err == nil && w.written != w.size && w.size != UnknownSize {
		err = ErrLength
	}
	if err != nil {
		return err
	}
	return w.commit(ctx)
}

// commit sets the owner and mode, flushes the content and renames the file into place.
func (w *Replacement) commit(ctx context.Context) error {
	if err := unix.Fchown(int(w.file.Fd()), w.uid, w.gid); err != nil {
		w.mode &= 0o777 // the owner differs, so drop the set-id bits
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

// commitInVolume waits for a running change, renames the file into place and flushes the rename.
func (w *Replacement) commitInVolume(ctx context.Context) error {
	release, err := w.volume.LockChanges(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := w.rename(); err != nil {
		return err
	}
	return syncFolder(int(w.dir.Fd()))
}

// syncFolder flushes a directory. The descriptor at can be opened with O_PATH.
func syncFolder(at int) error {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("fsync", unix.Fsync(fd))
}

// Discard closes the file. If the file is not in place yet, Discard removes it.
func (w *Replacement) Discard() {
	w.file.Close()
	if w.temporary != "" {
		unix.Unlinkat(int(w.staging.Fd()), w.temporary, 0)
	}
	w.dir.Close()
}

// ErrNoFolder means that a path exists but is not a directory.
var ErrNoFolder = errors.New("it exists and is not a directory")
