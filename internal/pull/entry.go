package pull

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/diff"
)

// entry is an entry of the host. Its zero value means that there is no entry.
type entry struct {
	kind    diff.Kind
	mode    fs.FileMode // permission bits
	size    int64
	link    string
	mark    string // identifies this version of the entry
	blocked string // a parent that is not a directory
	removed bool   // the plan removes the entry
}

// expected returns the condition for an operation on the entry.
func (e entry) expected() string {
	switch {
	case e.removed || e.kind == diff.Directory:
		return ""
	case e.kind == "":
		return "absent"
	}
	return e.mark
}

// openBeneath opens a path in a folder. It follows no links.
func openBeneath(folder *os.File, name string, flags int) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(folder.Fd()), name, &how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// lookUp returns the entry at a path of the folder.
func lookUp(folder *os.File, name string) (entry, error) {
	dir, err := openBeneath(folder, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return entry{}, nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return entry{blocked: blockedAt(folder, path.Dir(name))}, nil
	case err != nil:
		return entry{}, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if err == unix.ENOENT {
			return entry{}, nil
		}
		return entry{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	e := entry{mode: fs.FileMode(st.Mode & 0o777), size: st.Size, mark: listing.Mark{
		Inode: st.Ino, Size: st.Size, ModTime: unix.TimespecToNsec(st.Mtim), ChangeTime: unix.TimespecToNsec(st.Ctim), Mode: st.Mode & 0o7777,
	}.String()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.kind = diff.File
	case unix.S_IFDIR:
		e.kind = diff.Directory
	case unix.S_IFLNK:
		e.kind = diff.Symlink
		e.link, err = readLink(int(dir.Fd()), path.Base(name))
	default:
		e.kind = diff.Other
	}
	return e, err
}

func readLink(dir int, name string) (string, error) {
	target := make([]byte, listing.MaxPath+1)
	n, err := unix.Readlinkat(dir, name, target)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(target[:n]), nil
}

// blockedAt returns the first part of a path that exists and is not a directory.
func blockedAt(folder *os.File, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		if f, err := openBeneath(folder, at, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return at
		} else {
			f.Close()
		}
	}
	return name
}

// namesIn returns the names in a directory of the folder.
func namesIn(folder *os.File, name string) ([]string, error) {
	f, err := openBeneath(folder, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// equalsWorkspace reports whether an entry of the host is as in the workspace.
func (p *planner) equalsWorkspace(host entry, c diff.Change) (bool, error) {
	if c.Status == diff.Deleted {
		return host.kind == "", nil
	}
	return p.equals(host, c.Path, c.Kind, c.After, c.NewSize, c.NewLink, p.sides.Workspace)
}

// equalsBaseline reports whether an entry of the host is as in the baseline.
func (p *planner) equalsBaseline(host entry, c diff.Change) (bool, error) {
	if c.Status == diff.Added {
		return host.kind == "", nil
	}
	kind, link := c.OldKind, c.OldLink
	if kind == "" {
		kind = c.Kind
	}
	return p.equals(host, c.Path, kind, c.Before, c.OldSize, link, p.sides.Baseline)
}

// equals reports whether an entry of the host has the given properties.
func (p *planner) equals(host entry, name string, kind diff.Kind, mode fs.FileMode, size int64, link string, tree Tree) (bool, error) {
	if host.kind != kind {
		return false, nil
	}
	switch kind {
	case diff.Directory:
		return true, nil
	case diff.Symlink:
		return host.link == link, nil
	}
	if executable(host.mode) != executable(mode) || host.size != size {
		return false, nil
	}
	mine, err := openBeneath(p.sides.Folder, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer mine.Close()
	other, err := tree.Open(p.ctx, name)
	if err != nil {
		return false, err
	}
	defer other.Close()
	return equalContent(mine, other)
}

// equalContent reports whether two readers return the same content.
func equalContent(a, b io.Reader) (bool, error) {
	const chunk = 64 << 10
	ra, rb := bufio.NewReaderSize(a, chunk), bufio.NewReaderSize(b, chunk)
	for {
		x, errX := ra.Peek(chunk)
		y, errY := rb.Peek(chunk)
		if err := errors.Join(notEnd(errX), notEnd(errY)); err != nil {
			return false, err
		}
		if !bytes.Equal(x, y) {
			return false, nil
		}
		if errX != nil || errY != nil {
			return errX != nil && errY != nil, nil
		}
		ra.Discard(len(x))
		rb.Discard(len(y))
	}
}

func notEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
