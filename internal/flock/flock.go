// Package flock uses flock(2) to lock files against other processes. When a process ends, the
// kernel releases its locks.
package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// retryEvery is the interval between attempts to lock. Polling is needed because a blocking
// flock(2) can't be cancelled.
const retryEvery = 20 * time.Millisecond

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("locked by another process")

// Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Mode is shared or exclusive.
type Mode int

// The modes of locks.
const (
	Shared    Mode = unix.LOCK_SH
	Exclusive Mode = unix.LOCK_EX
)

// Try locks the file at path. If the file is missing, Try creates it. ErrHeld: another process
// holds the lock.
func Try(path string, mode Mode) (*Lock, error) {
	return try(path, mode, os.O_RDONLY|os.O_CREATE)
}

// TryFolder is like Try, but locks a folder, which must exist.
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
		f.Close() // the file was removed or replaced before it was locked
	}
}

// Held reports whether another process holds the exclusive lock on the file or folder at path.
// fs.ErrNotExist: it does not exist.
func Held(path string) (bool, error) { return probe(path, unix.LOCK_SH) }

// InUse reports whether another process holds a lock on the file or folder at path, shared or
// exclusive. For a moment, it holds the exclusive lock itself. fs.ErrNotExist: it does not exist.
func InUse(path string) (bool, error) { return probe(path, unix.LOCK_EX) }

// probe reports whether a lock can't be taken now.
func probe(path string, mode int) (bool, error) {
	fd, err := open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	switch err := unix.Flock(fd, mode|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	unlock(fd)
	return false, nil
}

// open opens a file. Unlike os.OpenFile, it does not check whether the file can be polled. That
// check takes longer than everything else in this package.
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

// Take waits until it can lock the file at path. If it has to wait, it calls the function waiting
// once, unless waiting is nil.
func Take(ctx context.Context, path string, mode Mode, waiting func()) (*Lock, error) {
	return take(ctx, func() (*Lock, error) { return Try(path, mode) }, waiting)
}

// TakeFolder is like Take, but locks a folder, which must exist.
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

// Release releases the lock. It is idempotent.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	if c, err := l.file.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { unlock(int(fd)) })
	}
	l.file.Close()
}

// unlock releases the lock of a descriptor that is closed next. Closing it is not enough: a child
// that this process is just starting has a copy of the descriptor until it executes its program.
func unlock(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }

func same(f *os.File, path string) bool {
	held, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

// Holder returns the process that holds the exclusive lock on the file at path. It finds only
// processes of the same user and PID namespace. ErrNoHolder: there is no such process.
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
			continue // another file, another user's process, or no longer open
		}
		if info, err := os.Stat(fd); err != nil || !os.SameFile(info, file) {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		info, err := os.ReadFile(filepath.Join(process, "fdinfo", filepath.Base(fd)))
		if err != nil || !exclusive().Match(info) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			return pid, nil
		}
	}
	return 0, ErrNoHolder
}

// ErrNoHolder means that no visible process holds the lock.
var ErrNoHolder = errors.New("no visible process holds the lock")

// exclusive matches a descriptor with an exclusive lock in /proc/PID/fdinfo; see proc(5).
var exclusive = lazyregexp.New(`(?m)^lock:\s+\d+: FLOCK\s+\S+\s+WRITE `)
