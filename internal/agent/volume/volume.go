// Package volume changes, lists and reads file trees inside a machine.
//
// A [Volume] is the file system behind /workspace. It outlives the machine. Changes to it are
// atomic: after a crash, the tree is either the old one or the new one. Links never lead out of it.
// Functions with a root parameter do the same for the machine's whole file system, but are not
// atomic.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Volume is a file system that outlives its machine. Its root contains the workspace and a
// directory for staging changes. Other entries of the root are ignored. A Volume is safe for
// concurrent use.
type Volume struct {
	Reader
	root       *os.File
	pending    *os.File // contains one directory per change, and files that are being written
	fsKind     FSKind
	changeLock chan struct{}           // contains a token while a change is applied or LockChanges blocks changes
	hook       func(step string) error // used by tests: a change calls it before each modification of the disk

	mu         sync.Mutex
	users      sync.WaitGroup
	closed     bool
	closedDone chan struct{} // closed when Close has finished its work
	closeErr   error         // error from the last flush
}

// Errors about a volume that is not mounted or is closed.
var (
	ErrNotReady = errors.New("not ready")
	ErrClosed   = fmt.Errorf("%w: the machine is shutting down", ErrNotReady)
)

// Names of entries in the root of a volume. FilesFolder is the workspace. PendingFolder is empty if
// no change is in progress.
const (
	FilesFolder   = "files"
	PendingFolder = "pending"
)

// FSKind is the kind of the file system that contains a volume.
type FSKind int

// The kinds of file systems.
const (
	LocalFS FSKind = iota // a file system of this kernel
	// PassthroughFS is a file system behind another kernel, for example gVisor's. There, syncfs
	// does not flush closed files or directories. So each file is flushed separately. Then one
	// directory is flushed, which flushes all directories. Some hard links can't be made.
	PassthroughFS
)

// Recovered counts the changes that a crash had interrupted.
type Recovered struct {
	Completed int // changes that were committed before the crash
	Undone    int // changes that were not committed before the crash, or could not be completed
}

// Open opens the volume in the directory root. It creates missing directories, and completes or
// undoes interrupted changes. Open takes ownership of root, even if it fails. Nothing else can use
// the volume at the same time.
func Open(root *os.File, kind FSKind) (*Volume, Recovered, error) {
	return newVolume(root, kind).opened()
}

// OpenFolder is like Open, but uses the existing directory files as the workspace. Directory root,
// which must be on the same file system, receives the staged changes. OpenFolder takes ownership of
// both, even if it fails.
func OpenFolder(root, files *os.File, kind FSKind) (*Volume, Recovered, error) {
	v := newVolume(root, kind)
	v.files = files
	return v.opened()
}

func (v *Volume) opened() (*Volume, Recovered, error) {
	recovered, err := v.open()
	if err != nil {
		v.closeFiles()
		return nil, recovered, err
	}
	return v, recovered, nil
}

func newVolume(root *os.File, kind FSKind) *Volume {
	return &Volume{root: root, fsKind: kind, changeLock: make(chan struct{}, 1), closedDone: make(chan struct{})}
}

func (v *Volume) open() (recovered Recovered, err error) {
	if v.files == nil {
		if v.files, err = v.folder(FilesFolder, 0o755); err != nil {
			return recovered, err
		}
	}
	if v.pending, err = v.folder(PendingFolder, 0o700); err != nil {
		return recovered, err
	}
	return v.recover()
}

// folder opens a directory in the root of the volume. If the directory is missing, folder creates
// it.
func (v *Volume) folder(name string, mode uint32) (*os.File, error) {
	err := unix.Mkdirat(int(v.root.Fd()), name, mode)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := unix.Openat(int(v.root.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	if made {
		if err := unix.Fchmod(fd, mode); err != nil { // mkdir applies the umask
			unix.Close(fd)
			return nil, &os.PathError{Op: "chmod", Path: name, Err: err}
		}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (v *Volume) closeFiles() {
	for _, f := range []*os.File{v.pending, v.files, v.root} {
		if f != nil {
			f.Close()
		}
	}
}

// Use prevents the volume from being closed until done is called. After Close, Use returns
// ErrClosed.
func (v *Volume) Use() (done func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, ErrClosed
	}
	v.users.Add(1)
	return v.users.Done, nil
}

// Files returns the descriptor of the workspace's root directory. Call it only between Use and
// done.
func (v *Volume) Files() int { return int(v.files.Fd()) }

// Close rejects new operations, waits for running ones, flushes the volume and closes it. If ctx
// ends before, Close returns and the work continues in the background. Close is idempotent.
func (v *Volume) Close(ctx context.Context) error {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		go func() {
			v.users.Wait()
			v.closeErr = v.flush()
			v.closeFiles()
			close(v.closedDone)
		}()
	}
	v.mu.Unlock()
	select {
	case <-v.closedDone:
		return v.closeErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// LockChanges waits until a running change has ended, and then blocks changes until release is
// called.
func (v *Volume) LockChanges(ctx context.Context) (release func(), err error) {
	select {
	case v.changeLock <- struct{}{}:
		return func() { <-v.changeLock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Flush flushes all data of the volume to its disk.
func (v *Volume) Flush() error {
	done, err := v.Use()
	if err != nil {
		return err
	}
	defer done()
	return v.flush()
}

func (v *Volume) flush() error {
	if err := unix.Syncfs(int(v.root.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	if v.fsKind == PassthroughFS {
		return v.pending.Sync()
	}
	return nil
}

// NewReplacement starts to write a file. When the file is complete, it replaces an existing one. It
// follows symbolic links within the workspace.
func (v *Volume) NewReplacement(spec FileSpec) (*Replacement, error) {
	open := func(name string) (*os.File, error) {
		if strings.HasPrefix(name, "/") { // the target of a link
			return nil, &os.PathError{Op: "open", Path: name, Err: ErrLeadsOut}
		}
		return v.openBeneath(strings.TrimRight(name, "/"), unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	w, err := newReplacement(open, v.pending, spec)
	if err != nil {
		return nil, err
	}
	w.volume = v
	return w, nil
}
