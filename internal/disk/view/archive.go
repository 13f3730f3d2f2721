package view

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// Archive writes a whole tree as a tar archive in PAX format. It preserves owners, modes, times to
// the second, hard links, file capabilities and user attributes. It omits sockets. Equal trees give
// equal archives.
func Archive(ctx context.Context, t Tree, to io.Writer) error {
	a := archiver{ctx, t, tar.NewWriter(to), map[fileID]string{}}
	info, err := t.Lstat(".")
	if err != nil {
		return err
	}
	if err := a.add(".", info); err != nil {
		return err
	}
	return a.out.Close()
}

type archiver struct {
	ctx   context.Context
	tree  Tree
	out   *tar.Writer
	links map[fileID]string // the first name of each file with several hard links
}

// add writes an entry and everything below it.
func (a *archiver) add(name string, info fs.FileInfo) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	h, err := a.header(name, info)
	if err != nil || h == nil {
		return err
	}
	if err := a.out.WriteHeader(h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return a.content(name, h.Size)
	case tar.TypeDir:
		return a.below(name)
	}
	return nil
}

func (a *archiver) below(name string) error {
	entries, err := a.tree.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		inside := e.Name()
		if name != "." {
			inside = name + "/" + inside
		}
		if err := a.add(inside, info); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiver) content(name string, size int64) error {
	f, err := a.tree.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(a.out, content{a.ctx, f}, size)
	return err
}

// header describes an entry. It returns nil for a socket.
func (a *archiver) header(name string, info fs.FileInfo) (*tar.Header, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, &fs.PathError{Op: "archive", Path: name, Err: errors.ErrUnsupported}
	}
	h := &tar.Header{
		Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: info.ModTime().Truncate(1e9), Format: tar.FormatPAX,
	}
	if id := (fileID{st.Dev, st.Ino}); st.Nlink > 1 && !info.IsDir() {
		if first, written := a.links[id]; written {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return h, nil
		}
		a.links[id] = name
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		h.Linkname, err = a.tree.ReadLink(name)
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h, a.attributes(h, name)
}

// attributes adds the extended attributes that have a meaning in every machine.
func (a *archiver) attributes(h *tar.Header, name string) error {
	all, err := a.tree.Xattrs(name)
	for key, value := range all {
		if !xattr.Portable(key) || xattr.ACL(key) {
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattrRecord+key] = value
	}
	return err
}
