// Package tree handles volumes that are folders on the host: it copies, writes, measures, flushes and removes them.
//
// What is in such a folder was made by a machine, so it is taken for hostile: links are never followed, every step is made from an open folder to a name
// in it, and trees of any depth are gone through with few files open. Paths that callers give are their own, and trusted.
package tree

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Stats says what a tree holds, or what of it was copied.
type Stats struct {
	Files    int   // regular files, each counted once whatever names it has
	Folders  int   // without the tree's own
	Symlinks int   // symbolic links
	Links    int   // further names of what was counted already
	Special  int   // FIFOs, sockets and devices
	Skipped  int   // devices that could not be made without root
	Bytes    int64 // of all files, holes included
}

// maxPath is more than the bytes that a path, or the text of a link, may have, as in Linux.
const maxPath = 4096

// maxSubject bounds how much of a path that a machine chose an error quotes.
const maxSubject = 400

// shortened is the end of a path, which tells more than its beginning.
func shortened(path string) string {
	if len(path) > maxSubject {
		return "…" + path[len(path)-maxSubject:]
	}
	return path
}

// named says what went wrong with which path of a tree. What names one already, and the end of a context, stay as they are.
func named(err error, op, path string) error {
	known := (*fault.Error)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known) && known.Subject != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &fault.Error{Op: op, Subject: shortened(path), Err: err}
}

// again repeats a system call that a signal came into, as file systems outside the kernel let happen.
func again[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// openAt opens a name in a folder, never following a link and never waiting for a FIFO's other end.
func openAt(folder int, name string, flags int, mode uint32) (int, error) {
	return again(func() (int, error) {
		return unix.Openat(folder, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
	})
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY

// openTop opens a tree's own folder by its path.
func openTop(path string) (int, error) {
	return again(func() (int, error) { return unix.Open(path, folderFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
}

// badName tells whether something can't be the name of an entry in a folder.
func badName(name string) bool {
	return name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00")
}
