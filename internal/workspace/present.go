package workspace

import (
	"bytes"
	"context"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// comparer finds the files of a push that the workspace already has. It reads both files on the
// host. The machine can write a file after it was compared. This file is then not replaced, as if
// the machine had written it after the push.
type comparer struct {
	ctx    context.Context
	theirs *volume.Reader
	into   string // the target of the push, relative to the workspace
	a, b   []byte
}

func newComparer(ctx context.Context, theirs *volume.Reader, into string) *comparer {
	return &comparer{ctx: ctx, theirs: theirs, into: into, a: make([]byte, 128<<10), b: make([]byte, 128<<10)}
}

// present reports whether the workspace has a file at a path, with the content, mode and time of a
// file of the host. The file must belong to root. present returns false if it can't read a file. It
// also returns false for sparse files, because reading their holes can take long.
func (c *comparer) present(name string, file int, st *unix.Stat_t) bool {
	f, err := c.theirs.OpenExact(path.Join(c.into, name))
	if err != nil {
		return false
	}
	defer f.Close()
	var there unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &there); err != nil {
		return false
	}
	if there.Size != st.Size || there.Mode != st.Mode || there.Mtim != st.Mtim {
		return false
	}
	// The user of pyro on the host is root in the machine.
	if int(there.Uid) != os.Geteuid() || int(there.Gid) != os.Getegid() {
		return false
	}
	if _, holes, err := sparse.Of(file, st); holes || err != nil {
		return false
	}
	return c.equal(file, int(f.Fd()), st.Size)
}

// equal reports whether the first size bytes of two files are equal.
func (c *comparer) equal(one, other int, size int64) bool {
	for at := int64(0); at < size; {
		n := min(size-at, int64(len(c.a)))
		if c.ctx.Err() != nil || !readAt(one, c.a[:n], at) || !readAt(other, c.b[:n], at) || !bytes.Equal(c.a[:n], c.b[:n]) {
			return false
		}
		at += n
	}
	return true
}

// readAt fills b with the content of a file at an offset, and reports whether that was possible.
func readAt(fd int, b []byte, at int64) bool {
	for len(b) > 0 {
		n, err := unix.Pread(fd, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		b, at = b[n:], at+int64(n)
	}
	return true
}
