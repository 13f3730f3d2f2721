// Package volume changes, lists and reads trees of files inside a machine.
//
// A [Volume] is the file system behind /workspace, which outlives machines. Its changes survive a
// crash: after one, the tree is the old one or the new one. Links never lead out of it. The
// functions with a root folder do the same for the machine's whole file system, without that
// promise.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// Volume is the file system that outlives a machine. In its root it has a folder that is seen as the workspace, and another in which changes are staged. What
// else is there is nobody's business. It is safe for concurrent use.
type Volume struct {
	root    *os.File
	files   *os.File // seen as the workspace
	pending *os.File // of changes, each in a folder of its own, and of files that are being written
	reach   Reach
	still   chan struct{}           // holds a token while a change is applied, or may not be
	hook    func(step string) error // of tests: called before everything that a change does to the disk

	mu     sync.Mutex
	users  sync.WaitGroup
	closed bool
	gone   chan struct{} // closed when it has been closed
	last   error         // of the flush before that
}

// Errors of a volume that is not mounted, or has been closed.
var (
	ErrNotReady = errors.New("not ready")
	ErrClosed   = fmt.Errorf("%w: the machine is being ended", ErrNotReady)
)

// Names in the root of a volume. FilesFolder is what is seen as the workspace.
const (
	FilesFolder   = "files"
	pendingFolder = "pending"
)

// Reach is how far what an agent does to a volume reaches.
type Reach int

// The kinds of reach.
const (
	Whole Reach = iota // the volume is a file system of the kernel's
	// Single: it is one of another kernel's, behind the agent's. syncfs flushes neither files that are closed nor folders there: each file is flushed by itself,
	// and then a folder, with which all folders are. Hard links can't be relied on.
	Single
)

// Recovered tells what became of changes that a crash had cut short.
type Recovered struct {
	Completed int // they were decided on
	Undone    int // they were not
}

// Open opens the volume in a folder, which becomes the volume's even where this fails, makes what it lacks, and completes or undoes what a crash has left
// half done. Nothing else may use the volume.
func Open(root *os.File, reach Reach) (*Volume, Recovered, error) {
	v := newVolume(root, reach)
	recovered, err := v.open()
	if err != nil {
		v.closeFiles()
		return nil, recovered, err
	}
	return v, recovered, nil
}

func newVolume(root *os.File, reach Reach) *Volume {
	return &Volume{root: root, reach: reach, still: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (v *Volume) open() (recovered Recovered, err error) {
	if v.files, err = v.folder(FilesFolder, 0o755); err != nil {
		return recovered, err
	}
	if v.pending, err = v.folder(pendingFolder, 0o700); err != nil {
		return recovered, err
	}
	return v.recover()
}

// folder opens a folder of the root, and makes it where it is missing.
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
		if err := unix.Fchmod(fd, mode); err != nil { // whatever the umask is
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

// Use keeps the volume from being closed until done is called. ErrClosed: it has been closed.
func (v *Volume) Use() (done func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, ErrClosed
	}
	v.users.Add(1)
	return v.users.Done, nil
}

// Close refuses everything from now on, waits until what has begun is over, flushes the volume and closes it. Where ctx ends first, that goes on. Idempotent.
func (v *Volume) Close(ctx context.Context) error {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		go func() {
			v.users.Wait()
			v.last = v.flush()
			v.closeFiles()
			close(v.gone)
		}()
	}
	v.mu.Unlock()
	select {
	case <-v.gone:
		return v.last
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Still waits until no change is being applied, and lets none be applied until release is called.
func (v *Volume) Still(ctx context.Context) (release func(), err error) {
	select {
	case v.still <- struct{}{}:
		return func() { <-v.still }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Flush has everything that was written to the volume on the disk.
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
	if v.reach == Single {
		return v.pending.Sync()
	}
	return nil
}

// ErrLeadsOut is the error for a path that leaves the workspace.
var ErrLeadsOut = errors.New("leads out of the workspace")

// CheckRelative refuses a text that is no path in a volume. The empty path is the workspace itself.
func CheckRelative(name string) error {
	switch {
	case len(name) > listing.MaxPath:
		return errors.New("path must be at most 4096 bytes")
	case strings.IndexByte(name, 0) >= 0:
		return errors.New("path must not hold a zero byte")
	case name == "":
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New(`path must be relative to the workspace, without empty parts, "." and ".."`)
		}
	}
	return nil
}

// A change elsewhere makes the kernel unsure of where a path leads that goes up, and it wants to be asked again.
const maxUnsure = 100

// openBeneath opens a path in the workspace. It never leaves it.
func (v *Volume) openBeneath(name string, flags int, resolve uint64) (*os.File, error) {
	fd, err := v.openFD(name, flags, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (v *Volume) openFD(name string, flags int, resolve uint64) (fd int, err error) {
	at := name
	if at == "" {
		at = "."
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range maxUnsure {
		if fd, err = unix.Openat2(int(v.files.Fd()), at, &how); err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	if err == unix.EXDEV {
		return -1, &os.PathError{Op: "open", Path: name, Err: ErrLeadsOut}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// Open opens what is at a path for reading, a folder too. It does not wait for the other end of a pipe.
func (v *Volume) Open(name string) (*os.File, error) {
	return v.openBeneath(name, unix.O_RDONLY|openQuietly, 0)
}

// OpenRegular opens a regular file for reading.
func (v *Volume) OpenRegular(name string) (*os.File, error) {
	return regularAt(func(flags int) (*os.File, error) { return v.openBeneath(name, flags, 0) })
}

// NewReplacement begins to write a file, which appears when it is whole.
func (v *Volume) NewReplacement(spec FileSpec) (*Replacement, error) {
	open := func(name string) (*os.File, error) {
		return v.openBeneath(strings.Trim(name, "/"), unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	w, err := begin(open, v.pending, spec)
	if err != nil {
		return nil, err
	}
	w.volume = v
	return w, nil
}

// parentOf is the folder that a path is in, and its last part.
func parentOf(name string) (dir, last string) {
	dir, last = path.Split(name)
	return strings.TrimSuffix(dir, "/"), last
}
