package workspace

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// reader reads the files of a running workspace. In tree storage the host has the files, so reader
// reads them there, without the machine. The machine caches nothing that it has not written, see
// docs/design.md.
//
// The host can't read the files in these cases. reader then asks the machine:
//   - The storage consists of blocks.
//   - The folder lacks entries of the machine (machine.TreeIncomplete).
//   - pyro is not root, and its user is not allowed to read all files.
type reader struct {
	client *remote.Client
	m      *Manager
	record store.Workspace
	folder *os.File
	host   *volume.Reader // nil: only the machine can read the files.
	owner  *listing.Entry // has the owner of all files in the machine; nil: the host reports the owners.
}

// reader connects to a running workspace, to read the entry at a path with its direct content. If
// deep is true, the caller also reads everything below it. The caller must close the reader.
func (m *Manager) reader(ctx context.Context, id, path string, deep bool) (*reader, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	r := &reader{client: c, m: m, record: w}
	if err := r.open(ctx, path, deep); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *reader) open(ctx context.Context, path string, deep bool) error {
	if err := r.openFolder(ctx); err != nil || r.host == nil || os.Geteuid() == 0 {
		return err
	}
	seen, err := r.client.Stat(ctx, "")
	if err != nil {
		return err
	}
	r.owner = &seen
	if err := r.readable(ctx, path, deep); err != nil {
		r.host = nil
	}
	return context.Cause(ctx)
}

// openFolder opens the files on the host, if the host has them.
func (r *reader) openFolder(ctx context.Context) error {
	disks, err := r.m.disks(r.record)
	if err != nil {
		return err
	}
	// Read the record again, because a reset before the connection might have changed it.
	if r.record, err = r.m.Store.Workspace(ctx, r.record.ID); err != nil {
		return err
	}
	if r.folder, err = disks.OpenComplete(r.record.Disks); err != nil || r.folder == nil {
		return nil // the machine answers, and reports the error if there is one
	}
	r.host = volume.NewReader(r.folder)
	return nil
}

func (r *reader) close() {
	if r.folder != nil {
		r.folder.Close()
	}
	r.client.Close()
}

// errUnreadable means that the host's user can't read a file, although root of the machine can.
var errUnreadable = errors.New("the user can't read it")

// readable returns an error unless pyro's user owns all files and is allowed to read them. The user
// is root in the machine, so the machine reports one owner for all of these files.
func (r *reader) readable(ctx context.Context, path string, deep bool) error {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return hostList(ctx, r.host, path, deep, func(e listing.Entry) error {
		needed := map[listing.Kind]uint32{listing.File: 0o400, listing.Folder: 0o500}[e.Kind]
		if e.UID != uid || e.GID != gid || e.Mode&needed != needed {
			return errUnreadable
		}
		return nil
	})
}

// hostList lists a path with its direct content or, if deep is true, everything below it.
func hostList(ctx context.Context, from *volume.Reader, path string, deep bool, each func(listing.Entry) error) error {
	l, err := from.List(path, deep)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Each(func(e listing.Entry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return each(e)
	})
}

// list is like [remote.Client.List].
func (r *reader) list(ctx context.Context, path string, deep bool, each func(listing.Entry) error) error {
	if r.host == nil {
		return r.client.List(ctx, path, deep, each)
	}
	begun, stopped := false, error(nil)
	err := hostList(ctx, r.host, path, deep, func(e listing.Entry) error {
		begun = true
		if r.owner != nil {
			e.UID, e.GID = r.owner.UID, r.owner.GID
		}
		stopped = each(e)
		return stopped
	})
	switch {
	case err == nil || stopped != nil || ctx.Err() != nil:
		return err
	case !begun:
		return r.client.List(ctx, path, deep, each) // reports the error as for other workspaces
	}
	return fault.Wrap(err, "list", AbsolutePath(path))
}

// file opens a regular file, and follows no links. If there is no such file, the error is
// fs.ErrNotExist.
func (r *reader) file(ctx context.Context, path string) (io.ReadCloser, error) {
	if r.host != nil {
		return hostFile(r.host, path)
	}
	ctx, cancel := context.WithCancel(ctx)
	from, w := io.Pipe()
	go func() { w.CloseWithError(r.client.ReadFile(ctx, path, 0, 0, w)) }()
	content := bufio.NewReader(from)
	if _, err := content.Peek(1); err != nil && err != io.EOF {
		cancel()
		if fault.KindOf(err) == fault.NotFound {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	return reading{content, func() { cancel(); from.Close() }}, nil
}

func hostFile(from *volume.Reader, path string) (io.ReadCloser, error) {
	f, err := from.OpenExact(path)
	if volume.Vanished(err) || errors.Is(err, volume.ErrNotRegular) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

type reading struct {
	io.Reader
	end func()
}

func (r reading) Close() error {
	r.end()
	return nil
}

// tree writes a tar archive of everything at or below a path, which is followed if it is a link. If
// the workspace was reset during the call, it returns an error after the end of the archive.
func (r *reader) tree(ctx context.Context, path string, to io.Writer) error {
	if r.host == nil {
		return r.client.ReadTree(ctx, path, to)
	}
	top, err := r.host.Open(path)
	if err != nil {
		return r.client.ReadTree(ctx, path, to) // reports the error as for other workspaces
	}
	defer top.Close()
	out := bufio.NewWriterSize(to, 256<<10)
	if _, err := volume.WriteTree(out, top, path); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return r.intact(ctx)
}

// intact returns an error if the workspace was deleted or reset. The folder might then have been
// removed while the reader read it.
func (r *reader) intact(ctx context.Context) error {
	if r.host == nil {
		return nil
	}
	now, err := r.m.Store.Workspace(ctx, r.record.ID)
	if err == nil && !slices.Equal(now.Disks.Volume, r.record.Disks.Volume) {
		err = fault.New(fault.Precondition, "read workspace", r.record.ID, "it was reset during the read").WithHint("repeat the call")
	}
	return err
}
