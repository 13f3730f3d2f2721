// Package flock locks files between processes, as flock(2) does: a lock ends with the process that holds it, however that ends.
package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// retryEvery is how often a held lock is tried again. flock(2) itself can't be cancelled.
const retryEvery = 20 * time.Millisecond

// ErrHeld says that somebody else holds the lock.
var ErrHeld = errors.New("locked by another process")

// Lock is a held lock.
type Lock struct{ file *os.File }

// Mode says whether a lock can be shared.
type Mode int

// The modes.
const (
	Shared    Mode = unix.LOCK_SH
	Exclusive Mode = unix.LOCK_EX
)

// Try takes the lock on the file at path, which is made where nothing is there. It gives ErrHeld at once where the lock can't be had.
func Try(path string, mode Mode) (*Lock, error) {
	return try(path, mode, os.O_RDONLY|os.O_CREATE)
}

// TryFolder is Try on a folder, which must exist.
func TryFolder(path string, mode Mode) (*Lock, error) {
	return try(path, mode, os.O_RDONLY|unix.O_DIRECTORY)
}

func try(path string, mode Mode, flags int) (*Lock, error) {
	for {
		fd, err := open(path, flags)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), path)
		if err := unix.Flock(fd, int(mode)|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrHeld
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		if same(f, path) {
			return &Lock{f}, nil
		}
		f.Close() // removed or replaced between open and lock: the lock is on something that no longer has this name
	}
}

// Held tells whether somebody else holds the lock on the file at path. It makes no file: fs.ErrNotExist where there is none.
func Held(path string) (bool, error) {
	fd, err := open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	switch err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return false, nil
}

// open does not ask, as os.OpenFile does, whether the file can be waited for, which takes longer than all that is done here.
func open(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err == nil || !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Take waits for the lock. waiting, which may be nil, is called once if it has to wait.
func Take(ctx context.Context, path string, mode Mode, waiting func()) (*Lock, error) {
	return take(ctx, func() (*Lock, error) { return Try(path, mode) }, waiting)
}

// TakeFolder is Take on a folder, which must exist.
func TakeFolder(ctx context.Context, path string, mode Mode) (*Lock, error) {
	return take(ctx, func() (*Lock, error) { return TryFolder(path, mode) }, nil)
}

func take(ctx context.Context, try func() (*Lock, error), waiting func()) (*Lock, error) {
	for {
		l, err := try()
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Release ends the lock. Idempotent.
func (l *Lock) Release() {
	if l != nil {
		l.file.Close()
	}
}

func same(f *os.File, path string) bool {
	held, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

// Holder gives the process that holds the exclusive lock on the file at path. It sees those of its own user and PID namespace. ErrNoHolder where there is none.
func Holder(path string) (pid int, err error) {
	file, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, fd := range open {
		if name, err := os.Readlink(fd); err != nil || filepath.Base(name) != filepath.Base(path) {
			continue // another file, another's process, or gone: only what may be it is looked into
		}
		if info, err := os.Stat(fd); err != nil || !os.SameFile(info, file) {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		info, err := os.ReadFile(filepath.Join(process, "fdinfo", filepath.Base(fd)))
		if err != nil || !exclusive.Match(info) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			return pid, nil
		}
	}
	return 0, ErrNoHolder
}

// ErrNoHolder says that no process that can be seen holds the lock.
var ErrNoHolder = errors.New("no process that can be seen from here holds the lock")

// exclusive is in what proc(5) tells of a descriptor that an exclusive lock is held through.
var exclusive = regexp.MustCompile(`(?m)^lock:\s+\d+: FLOCK\s+\S+\s+WRITE `)
