package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Diff compares /workspace of a running workspace with the baseline, and writes a patch. If a file
// changes during the call, Diff compares the content that it has read.
func (m *Manager) Diff(ctx context.Context, id string, patch io.Writer, o diff.Options) (*diff.Result, error) {
	s, err := m.sides(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.compare(ctx, patch, o)
}

// sides are the two trees of a running workspace that a diff compares.
type sides struct {
	baseline, current diff.Tree
	reader            *reader
	record            store.Workspace
	closer            io.Closer
}

func (s sides) close() {
	s.closer.Close()
	s.reader.close()
}

// compare compares the two trees. If the workspace is reset during the comparison, it returns an
// error.
func (s sides) compare(ctx context.Context, patch io.Writer, o diff.Options) (*diff.Result, error) {
	r, err := diff.Compare(ctx, s.baseline, s.current, patch, o)
	if gone := s.reader.intact(ctx); gone != nil && ctx.Err() == nil {
		return nil, gone
	}
	return r, fault.Wrap(err, "compare workspace", s.record.ID)
}

// sides opens the trees of a running workspace. The caller must close them.
func (m *Manager) sides(ctx context.Context, id string) (s sides, err error) {
	r, err := m.reader(ctx, id, "", true)
	if err != nil {
		return s, err
	}
	disks, err := m.disks(r.record)
	if err == nil {
		s, err = sidesOf(r, disks)
		err = fault.Wrap(err, "open the baseline of workspace", id)
	}
	if err != nil {
		r.close()
	}
	return s, err
}

func sidesOf(r *reader, disks storage.Folder) (sides, error) {
	s := sides{reader: r, record: r.record}
	if disks.Blocks {
		base, err := disks.OpenFiles(r.record.Disks.Baseline)
		if err != nil {
			return s, err
		}
		s.baseline, s.current, s.closer = imageTree{base}, current{r, func(e *listing.Entry) string { return e.Mark().String() }}, base
		return s, nil
	}
	base, err := disks.OpenFolder(r.record.Disks.Baseline)
	if err != nil {
		return s, err
	}
	linked, mark := disks.Links && r.host != nil, copyMark
	if linked {
		mark = linkMark
	}
	fresh := r.record.Disks.FreshUntil
	s.baseline, s.closer = folderTree{volume.NewReader(base), mark}, base
	s.current = current{r, func(e *listing.Entry) string {
		if linked && e.Links > 1 || e.ChangeTime < fresh {
			return mark(e)
		}
		return ""
	}}
	return s, nil
}

// Marks identify unchanged files. Files with equal marks are not read.
//
// In block storage the volume started as the baseline's image. Each change to a file sets its
// change time. So a file with the same inode, size, mode and times is unchanged.
//
// In tree storage the volume started as a copy. The change times of unchanged files are before the
// end of the copy. If the copy consists of hard links, an unchanged file is the file of the
// baseline. Snapshots and forks then change its change time, because they make links too.

// copyMark returns the mark of a file in tree storage. A copy has the same mark as the original.
func copyMark(e *listing.Entry) string {
	b := strconv.AppendInt(make([]byte, 0, 48), e.Size, 10)
	b = strconv.AppendInt(append(b, ' '), e.ModTime, 10)
	return string(strconv.AppendUint(append(b, ' '), uint64(e.Mode), 8))
}

// linkMark returns the mark of a file in tree storage with hard links. The host must have listed
// the file, because a machine can report other inodes.
func linkMark(e *listing.Entry) string {
	if e.Links < 2 {
		return copyMark(e)
	}
	return "inode " + strconv.FormatUint(e.Inode, 10)
}

// imageMark returns the mark of a file of an image in block storage.
func imageMark(st *syscall.Stat_t) string {
	mtime, ctime := time.Unix(st.Mtim.Unix()).UnixNano(), time.Unix(st.Ctim.Unix()).UnixNano()
	return listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: mtime, ChangeTime: ctime, Mode: st.Mode & 0o7777}.String()
}

// imageTree is the tree of a baseline in block storage.
type imageTree struct{ storage.Files }

// List lists all files below the root of the tree.
func (b imageTree) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
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
					e.Identity = imageMark(st)
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
func (b imageTree) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return b.Tree.Open(path)
}

// folderTree is the tree of a baseline in tree storage.
type folderTree struct {
	from *volume.Reader
	mark func(*listing.Entry) string
}

// List lists all files below the root of the tree.
func (f folderTree) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
	return entriesOf(f.mark, func(each func(listing.Entry) error) error { return hostList(ctx, f.from, "", true, each) })
}

// Open opens a file.
func (f folderTree) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return hostFile(f.from, path)
}

// current is the current tree of the workspace.
type current struct {
	from *reader
	mark func(*listing.Entry) string
}

// List lists all files in the workspace.
func (c current) List(ctx context.Context) iter.Seq2[diff.Entry, error] {
	return entriesOf(c.mark, func(each func(listing.Entry) error) error { return c.from.list(ctx, "", true, each) })
}

// Open opens a file.
func (c current) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.from.file(ctx, path)
}

// entriesOf returns the entries of a list without its first one, which is the listed path.
func entriesOf(mark func(*listing.Entry) string, list func(each func(listing.Entry) error) error) iter.Seq2[diff.Entry, error] {
	return func(yield func(diff.Entry, error) bool) {
		err := list(func(e listing.Entry) error {
			if e.Path == "" {
				return nil
			}
			d := diff.Entry{Path: e.Path, Mode: e.FileMode(), Size: e.Size, Link: e.Target}
			if e.Kind == listing.File {
				d.Identity = mark(&e)
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
