package client

import (
	"context"
	"errors"
	"io"
	"math"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Owner is a user and a group, by their numbers.
type Owner struct{ UID, GID int }

// Unpacked counts the entries and bytes that PutTree has written.
type Unpacked struct {
	Files    int64
	Folders  int64 // new ones
	Links    int64 // symbolic and hard links.
	Replaced int64 // files and links that replaced others.
	Bytes    int64 // of content
	Skipped  int64 // devices and pipes, which PutTree does not create
	Lost     int64 // owners and extended attributes that the file system rejects
}

// PutTree unpacks a tar archive below a folder of the machine, given by its absolute path. It
// creates the folder and its missing parents. It resolves paths as programs of the machine do, and
// follows links to folders. Existing folders are merged, and other existing entries are replaced. A
// file gets its name only when it is complete.
//
// Entries get the mode, time, owner and extended attributes of the archive. If owner is not nil,
// all entries get this owner instead. An existing folder keeps its attributes, unless owner is nil
// and the archive has an entry for it below its top. PutTree creates no devices and pipes.
//
// PutTree is not atomic: after an error, earlier entries remain. If it returns no error, everything
// is on the disk.
//
// Precondition: an entry does not fit the existing files; the subject of the error is its name.
// Invalid: the archive is damaged. Permission: under host_compat, the path is not in /workspace.
// Unavailable: the link broke, and PutTree is not repeated.
func (c *Client) PutTree(ctx context.Context, path string, owner *Owner, archive io.Reader) (Unpacked, error) {
	const op = "unpack into"
	s, err := c.live(ctx)
	if err != nil {
		return Unpacked{}, fault.Wrap(err, op, path)
	}
	q := url.Values{"path": {path}}
	if owner != nil {
		q.Set("uid", strconv.Itoa(owner.UID))
		q.Set("gid", strconv.Itoa(owner.GID))
	}
	body := &reader{from: archive, left: math.MaxInt64}
	trailer, err := c.send(ctx, s, "/tree?"+q.Encode(), body, -1)
	if failed := body.failed(); failed != nil {
		return Unpacked{}, fault.Wrap(failed, "read the archive for", path)
	}
	var done Unpacked
	if err == nil {
		err = readCounts(trailer.Get(countsTrailer), &done.Files, &done.Folders, &done.Links, &done.Replaced, &done.Bytes, &done.Skipped, &done.Lost)
	}
	err = s.errorOf(ctx, err)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Subject != "" && f.Op == "" {
		return Unpacked{}, &fault.Error{Op: "unpack", Subject: f.Subject, Kind: f.Kind, Err: f.Err}
	}
	return done, fault.Wrap(err, op, path)
}

// GetTree writes the entry at an absolute path of the machine, and everything below it, as a tar
// archive in PAX format. The archive has owners and extended attributes. GetTree follows a link at
// the end of the path only if a slash follows. The parameter as is a single name or ".", and all
// names in the archive begin with it. If it is empty, they begin with the last element of the path.
// The archive omits devices, and the content of file systems like /proc.
//
// If GetTree fails, the archive is incomplete. If the link breaks after the first byte, GetTree is
// not repeated; the error is Unavailable. Permission: under host_compat, the path is not in
// /workspace.
func (c *Client) GetTree(ctx context.Context, path, as string, to io.Writer) (TreeCounts, error) {
	q := url.Values{"path": {path}}
	if as != "" {
		q.Set("as", as)
	}
	return c.tree(ctx, "/tree?"+q.Encode(), path, to)
}

// GetList writes the entries that a list names as a tar archive like [Client.GetTree], without the
// content of folders. The list is a file of the machine. It contains paths without a slash at the
// start, each followed by a NUL. GetList omits entries that no longer exist.
func (c *Client) GetList(ctx context.Context, list string, to io.Writer) (TreeCounts, error) {
	return c.tree(ctx, "/tree?"+url.Values{"path": {list}, "list": {"1"}}.Encode(), list, to)
}

// tree makes a call that returns an archive.
func (c *Client) tree(ctx context.Context, call, path string, to io.Writer) (TreeCounts, error) {
	w := &writer{to: to}
	trailer, err := c.generated(ctx, call, true, func(from io.Reader) error {
		_, err := content.Copy(w, from)
		if w.err != nil {
			return w.err
		}
		return err
	})
	var counts TreeCounts
	if err == nil {
		err = readCounts(trailer, &counts.Entries, &counts.Skipped, &counts.Changed)
	}
	return counts, fault.Wrap(err, "read", path)
}
