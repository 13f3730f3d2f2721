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

// Diff compares /workspace of a running workspace with the baseline, and writes a patch. If a file
// changes meanwhile, Diff compares the content that it has read.
func (m *Manager) Diff(ctx context.Context, id string, patch io.Writer, o diff.Options) (*diff.Result, error) {
	s, err := m.sides(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r, err := diff.Compare(ctx, s.baseline, s.current, patch, o)
	return r, fault.Wrap(err, "compare workspace", id)
}

// sides are the two trees of a running workspace that a diff compares.
type sides struct {
	baseline baseline
	current  current
	record   store.Workspace
}

func (s sides) close() {
	s.baseline.Close()
	s.current.client.Close()
}

// sides opens the trees of a running workspace. The caller must close them.
func (m *Manager) sides(ctx context.Context, id string) (s sides, err error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	disks, err := m.disks(w)
	if err != nil {
		return s, err
	}
	// Read the record again, because a reset before the connection might have changed it.
	if w, err = m.Store.Workspace(ctx, id); err != nil {
		return s, err
	}
	base, err := disks.OpenFiles(w.Disks.Baseline)
	if err != nil {
		return s, fault.Wrap(err, "open the baseline of workspace", id)
	}
	marks := marker{blocks: disks.Blocks, fresh: w.Disks.FreshUntil}
	return sides{baseline{base, marks}, current{c, marks}, w}, nil
}

// marker computes marks, which identify unchanged files. Files with equal marks are not read.
//
// In block storage the volume started as the baseline's image. Each change to a file sets its
// change time. So a file with the same inode, size, mode and times is unchanged.
//
// In tree storage the volume started as a copy. The change times of unchanged files are before the
// end of the copy.
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

// baseline is the tree of the baseline.
type baseline struct {
	storage.Files
	marks marker
}

// List lists all files below the root of the tree.
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

// plain returns a mode in the form that both trees use. All special files get the same mode.
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

// current is the current tree of the workspace.
type current struct {
	client *remote.Client
	marks  marker
}

// List lists all files in the workspace.
func (c current) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
	return func(yield func(diff.Entry, error) bool) {
		err := c.client.List(ctx, "", true, func(e listing.Entry) error {
			if e.Path == "" {
				return nil
			}
			d := diff.Entry{Path: e.Path, Mode: e.FileMode(), Size: e.Size, Link: e.Target}
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

// Open opens a file. Its content is read on demand.
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
