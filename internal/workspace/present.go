package workspace

import (
	"bytes"
	"context"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// comparer finds the files of a push that the workspace already has. It reads both files on the
// host. It is not safe for concurrent use.
type comparer struct {
	there   *reader
	into    string // the target of the push, relative to the workspace
	found   []found
	flushed int
	a, b    []byte
}

// found is a file that the workspace has, at a path relative to the workspace.
type found struct {
	path         string
	inode        uint64
	size         int64
	mtime, ctime unix.Timespec
}

// flushesOfFiles is the maximum number of files that are flushed one by one. More files are flushed
// with their whole file system, which can have much other data to write.
const flushesOfFiles = 64

func newComparer(there *reader, into string) *comparer {
	return &comparer{there: there, into: into, a: make([]byte, 128<<10), b: make([]byte, 128<<10)}
}

// present reports whether the workspace has a file at a path, with the content, mode and time of a
// file of the host. The file must belong to root and have no other name. present returns false if
// it can't read a file. It also returns false for sparse files, because reading their holes can
// take long.
func (c *comparer) present(ctx context.Context, name string, file int, st *unix.Stat_t) bool {
	name = path.Join(c.into, name)
	f, err := c.there.host.OpenExact(name)
	if err != nil {
		return false
	}
	defer f.Close()
	fd := int(f.Fd())
	var there unix.Stat_t
	if err := unix.Fstat(fd, &there); err != nil {
		return false
	}
	if there.Size != st.Size || there.Mode != st.Mode || there.Mtim != st.Mtim {
		return false
	}
	// The user of pyro on the host is root in the machine.
	if int(there.Uid) != os.Geteuid() || int(there.Gid) != os.Getegid() || there.Nlink > 1 && !tree.IsMarked(fd) {
		return false
	}
	if _, holes, err := sparse.Of(file, st); holes || err != nil || !c.equal(ctx, file, fd, st.Size) {
		return false
	}
	if c.flushed++; c.flushed <= flushesOfFiles && unix.Fsync(fd) != nil {
		return false
	}
	c.found = append(c.found, foundAt(name, &there))
	return true
}

func foundAt(path string, st *unix.Stat_t) found {
	return found{path, st.Ino, st.Size, st.Mtim, st.Ctim}
}

// equal reports whether the first size bytes of two files are equal.
func (c *comparer) equal(ctx context.Context, one, other int, size int64) bool {
	for at := int64(0); at < size; {
		n := min(size-at, int64(len(c.a)))
		_, err := sparse.Descriptor(one).ReadAt(c.a[:n], at)
		if err == nil {
			_, err = sparse.Descriptor(other).ReadAt(c.b[:n], at)
		}
		if err != nil || ctx.Err() != nil || !bytes.Equal(c.a[:n], c.b[:n]) {
			return false
		}
		at += n
	}
	return true
}

// flush makes sure that all files that were found are on the disk. A program of the machine could
// have written them just now.
func (c *comparer) flush() error {
	if c.flushed <= flushesOfFiles {
		return nil
	}
	return os.NewSyscallError("syncfs", unix.Syncfs(int(c.there.folder.Fd())))
}

// intact reports whether the workspace still has all files that were found, unchanged.
func (c *comparer) intact() bool {
	for _, was := range c.found {
		f, err := c.there.host.OpenExact(was.path)
		if err != nil {
			return false
		}
		var st unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &st)
		f.Close()
		if err != nil || foundAt(was.path, &st) != was {
			return false
		}
	}
	return true
}
