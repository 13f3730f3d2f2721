package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Diff tells how /workspace differs from the baseline, and writes that as a patch. The workspace must run. What changes while it is compared is told as it was
// when it was looked at.
func (m *Manager) Diff(ctx context.Context, id string, patch io.Writer, o diff.Options) (*diff.Result, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	disks, err := m.disks(w)
	if err != nil {
		return nil, err
	}
	base, err := disks.OpenFiles(w.Disks.Baseline)
	if err != nil {
		return nil, fault.Wrap(err, "open the baseline of workspace", id)
	}
	defer base.Close()
	// What is on its way to the disk has no time yet by which it could be told from what is old.
	if w, err = m.Store.Workspace(ctx, id); err != nil {
		return nil, err
	}
	marks := marker{blocks: disks.Blocks, fresh: w.Disks.FreshUntil}
	r, err := diff.Compare(ctx, baseline{base, marks}, current{c, marks}, patch, o)
	return r, fault.Wrap(err, "compare workspace", id)
}

// marker gives files the marks by which they are known to be as in the baseline without being read.
//
// In block storage the volume began as the baseline's image: a file that has kept its inode, size, mode and times was not touched, since whatever touches it sets
// its change time. In tree storage it began as a copy, whose change times are all before one moment.
type marker struct {
	blocks bool
	fresh  int64
}

func (m marker) ofBaseline(st *syscall.Stat_t) string {
	mtime, ctime := time.Unix(st.Mtim.Unix()).UnixNano(), time.Unix(st.Ctim.Unix()).UnixNano()
	if m.blocks {
		return listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: mtime, ChangeTime: ctime, Mode: st.Mode & 0o7777}.String()
	}
	return fmt.Sprintf("%d %d %o", st.Size, mtime, st.Mode&0o7777)
}

func (m marker) ofCurrent(e *listing.Entry) string {
	switch {
	case m.blocks:
		return e.Mark().String()
	case e.ChangeTime < m.fresh:
		return fmt.Sprintf("%d %d %o", e.Size, e.ModTime, e.Mode)
	}
	return ""
}

// baseline is the tree before.
type baseline struct {
	storage.Files
	marks marker
}

// List walks the files.
func (b baseline) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
	return func(yield func(diff.Entry, error) bool) {
		err := fs.WalkDir(b.Tree, ".", func(path string, d fs.DirEntry, err error) error {
			if err := errors.Join(err, ctx.Err()); err != nil || path == "." {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			e := diff.Entry{Path: path, Mode: plain(info.Mode()), Size: info.Size()}
			switch {
			case info.Mode().IsRegular():
				if st, ok := info.Sys().(*syscall.Stat_t); ok {
					e.Identity = b.marks.ofBaseline(st)
				}
			case info.Mode()&fs.ModeSymlink != 0:
				if e.Link, err = b.Tree.ReadLink(path); err != nil {
					return err
				}
			}
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(diff.Entry{}, err)
		}
	}
}

// plain is a mode as both trees tell it: special files are of one kind.
func plain(mode fs.FileMode) fs.FileMode {
	if mode&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
		return fs.ModeIrregular | mode&^fs.ModeType
	}
	return mode
}

// Open opens a file.
func (b baseline) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return b.Tree.Open(path)
}

// current is the tree as it is now.
type current struct {
	client *remote.Client
	marks  marker
}

// List lists the files.
func (c current) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
	return func(yield func(diff.Entry, error) bool) {
		err := c.client.List(ctx, "", true, func(e listing.Entry) error {
			if e.Path == "" {
				return nil
			}
			d := diff.Entry{Path: e.Path, Mode: ModeOf(&e), Size: e.Size, Link: e.Target}
			if e.Kind == listing.File {
				d.Identity = c.marks.ofCurrent(&e)
			}
			if !yield(d, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(diff.Entry{}, err)
		}
	}
}

// ModeOf is the mode of what a list has.
func ModeOf(e *listing.Entry) fs.FileMode {
	mode := fs.FileMode(e.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if e.Mode&bit != 0 {
			mode |= flag
		}
	}
	switch e.Kind {
	case listing.Folder:
		mode |= fs.ModeDir
	case listing.Link:
		mode |= fs.ModeSymlink
	case listing.Other:
		mode |= fs.ModeIrregular
	}
	return mode
}

// Open opens a file. It is read as it is needed.
func (c current) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.client.ReadFile(ctx, path, 0, 0, w)) }()
	content := bufio.NewReader(r)
	if _, err := content.Peek(1); err != nil && err != io.EOF {
		cancel()
		if fault.KindOf(err) == fault.NotFound {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	return reading{content, func() { cancel(); r.Close() }}, nil
}

type reading struct {
	io.Reader
	end func()
}

func (r reading) Close() error {
	r.end()
	return nil
}
