// Package tree copies, writes, measures, flushes and removes volumes. These volumes are folders on
// the host.
//
// A machine wrote the content of the volumes, so the package treats the content as hostile. It
// never follows symbolic links, and opens every name relative to an open folder. It walks trees of
// any depth with few open files. The package trusts the paths that callers pass.
package tree

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Stats counts the entries of a tree that were copied or written.
type Stats struct {
	Files    int   // Regular files. A file with several hard links counts once.
	Folders  int   // Folders, not counting the top.
	Symlinks int   // Symbolic links.
	Links    int   // Additional hard links to counted files.
	Special  int   // FIFOs, sockets and devices.
	Skipped  int   // Devices that Copy could not create because the process is not root.
	Bytes    int64 // The sizes of all files, including holes.
}

func (s *Stats) add(o Stats) {
	s.Files += o.Files
	s.Folders += o.Folders
	s.Symlinks += o.Symlinks
	s.Links += o.Links
	s.Special += o.Special
	s.Skipped += o.Skipped
	s.Bytes += o.Bytes
}

// maxPath is a limit of Linux, in bytes. Paths and link targets must be shorter.
const maxPath = 4096

// maxSubject limits the length of a path in an error, in bytes. A machine might have chosen the
// path.
const maxSubject = 400

// shortened returns the end of a long path, because the end identifies the file better than the
// beginning does.
func shortened(path string) string {
	if len(path) > maxSubject {
		return "…" + path[len(path)-maxSubject:]
	}
	return path
}

// withPath adds the operation and the path to an error. It returns context errors, and errors that
// already have a subject, unchanged.
func withPath(err error, op, path string) error {
	known := (*fault.Error)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known) && known.Subject != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &fault.Error{Op: op, Subject: shortened(path), Err: err}
}

// retry repeats a system call that a signal interrupted. System calls on file systems in user space
// can be interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// openAt opens the entry name in a folder. It never follows a symbolic link, and never waits for
// another process to open the other end of a FIFO.
func openAt(folder int, name string, flags int, mode uint32) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(folder, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
	})
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY

// openTop opens the top of a tree by its path.
func openTop(path string) (int, error) {
	return retry(func() (int, error) { return unix.Open(path, folderFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
}

// invalidName reports whether a string cannot be the name of an entry in a folder.
func invalidName(name string) bool {
	return name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00")
}
