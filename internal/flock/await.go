package flock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// When a file is closed, the kernel reports this just before it releases the lock of the file. So
// after an event, AwaitRelease tries again at growing intervals, from firstRetry to lastRetry. Then
// it waits for the next event.
const (
	firstRetry = 200 * time.Microsecond
	lastRetry  = 50 * time.Millisecond
)

// AwaitRelease waits until no other process holds the lock on the file at path. A file that does
// not exist counts as unlocked. If enough is not nil, AwaitRelease also returns when the function
// enough returns true. It calls this function after each change in the folder of the file.
// AwaitRelease does not poll, because the kernel reports the changes. If no inotify instance is
// available, it tries every 20 ms instead.
func AwaitRelease(ctx context.Context, path string, enough func() bool) error {
	if enough == nil {
		enough = func() bool { return false }
	}
	w, err := watch(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if w != nil {
		defer w.Close()
		defer context.AfterFunc(ctx, func() { w.SetReadDeadline(time.Unix(1, 0)) })()
	}
	var f *os.File // stays open, because closing it is an event
	defer func() { f.Close() }()
	for retry := firstRetry; ; {
		if f == nil || !same(f, path) {
			f.Close()
			if f, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if enough() {
			return nil
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
		case err == nil:
			unlock(int(f.Fd()))
			return nil
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return &os.PathError{Op: "flock", Path: path, Err: err}
		}
		if w == nil {
			select {
			case <-time.After(retryEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		var deadline time.Time
		if retry <= lastRetry {
			deadline = time.Now().Add(retry)
		}
		w.SetReadDeadline(deadline)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		closed, err := changes(w, filepath.Base(path))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			retry *= 2
		case err != nil:
			return err
		case closed:
			retry = firstRetry
		}
	}
}

// watch returns an inotify instance that reports the changes in a folder.
func watch(folder string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	w := os.NewFile(uintptr(fd), "inotify")
	const mask = unix.IN_CLOSE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	if _, err := unix.InotifyAddWatch(fd, folder, mask); err != nil {
		w.Close()
		return nil, &os.PathError{Op: "watch", Path: folder, Err: err}
	}
	return w, nil
}

// changes waits for changes in a folder. It reports whether a process has closed the file called
// name. If events were lost, it also returns true.
func changes(w *os.File, name string) (closed bool, err error) {
	var buffer [4096]byte
	n, err := w.Read(buffer[:])
	if err != nil {
		return false, err
	}
	for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			break
		}
		file := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
		closed = closed || file == name && mask&unix.IN_CLOSE != 0 || mask&unix.IN_Q_OVERFLOW != 0
		b = b[end:]
	}
	return closed, nil
}
