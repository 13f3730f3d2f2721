package client

import (
	"context"
	"errors"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/window"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// A path in the volume is relative to the workspace, which itself has the empty one. It has no empty part, no "." and no "..", and may hold any byte but NUL.
// Links in the way are followed within the workspace; Permission: one leads out of it. Precondition: the volume is not mounted.

// ReadVolumeFile copies a regular file of the volume, as [Client.ReadFile] does.
func (c *Client) ReadVolumeFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	return c.readFile(ctx, volumeFilePath, path, offset, limit, to)
}

// WriteVolumeFile replaces a file of the volume, as [Client.WriteFile] does. It is on the disk when this returns.
func (c *Client) WriteVolumeFile(ctx context.Context, spec FileSpec, from io.Reader) error {
	return c.writeFile(ctx, volumeFilePath, spec, from)
}

// List calls each with what is at a path of the volume, and with what is in it, or all below it where recursive is set: a folder before what it holds, the names
// of one folder in the order of their bytes. Paths are relative to the one that is asked for. An error of each ends the list and is given as it is. Where the
// link is lost after the first entry the list is not made again: Unavailable.
func (c *Client) List(ctx context.Context, path string, recursive bool, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return c.list(ctx, "/volume/list?"+q.Encode(), path, recursive, each)
}

// StatVolume returns the entry at a path of the volume. It follows no link, neither on the way nor at the end: a link is itself the entry, with its target.
func (c *Client) StatVolume(ctx context.Context, path string) (found listing.Entry, err error) {
	q := url.Values{"path": {path}, "recursive": {"false"}, "alone": {"1"}}
	err = c.list(ctx, "/volume/list?"+q.Encode(), path, false, func(e listing.Entry) error {
		found = e
		return nil
	})
	return found, err
}

func (c *Client) list(ctx context.Context, call, path string, byWindow bool, each func(listing.Entry) error) error {
	var own error
	_, err := c.generated(ctx, call, byWindow, func(from io.Reader) error {
		entries := listing.NewReader(from)
		for {
			e, err := entries.Next()
			switch {
			case err == io.EOF:
				return nil
			case errors.Is(err, listing.ErrBroken):
				return corrupt("%w", err)
			case err != nil:
				return err
			}
			if own = each(e); own != nil {
				return errWriter
			}
		}
	})
	if own != nil {
		return own
	}
	return fault.Wrap(err, "list", path)
}

// TreeCounts tell what a tree holds.
type TreeCounts struct {
	Entries int64
	Skipped int64 // sockets, pipes and devices, which are left out
	Changed int64 // files that were written to while they were read
}

// ReadTree writes what is at a path of the volume, and all below it, to a writer: a tar archive in PAX form, whose names begin with the last part of the path, or
// with "." for the workspace. With an error what was written is not whole. Where the link is lost after the first byte it is not begun again: Unavailable.
func (c *Client) ReadTree(ctx context.Context, path string, to io.Writer) (TreeCounts, error) {
	w := &writer{to: to}
	told, err := c.generated(ctx, "/volume/tree?"+url.Values{"path": {path}}.Encode(), true, func(from io.Reader) error {
		_, err := copyChunks(w, from)
		if w.err != nil {
			return w.err
		}
		return err
	})
	var counts TreeCounts
	if err == nil {
		err = readCounts(told, &counts.Entries, &counts.Skipped, &counts.Changed)
	}
	return counts, fault.Wrap(err, "read", path)
}

// generated makes a call for content that the agent makes while it sends it, has it taken, and gives its counts. A call of which something has been taken is not
// made again.
func (c *Client) generated(ctx context.Context, call string, byWindow bool, take func(io.Reader) error) (counts string, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		b, err := c.receive(ctx, s, call, math.MaxInt64, byWindow)
		if err != nil {
			return err
		}
		defer b.close()
		from := &taken{from: b.Reader}
		err = take(from)
		if errors.Is(err, errWriter) {
			return err
		}
		counts, err = b.conclude(err)
		if err != nil && from.any && s.broken() {
			err = fault.Newf(fault.Unavailable, "the link to the machine was lost before all of it had come")
		}
		return err
	})
	return counts, err
}

// taken knows whether anything was read.
type taken struct {
	from io.Reader
	any  bool
}

func (t *taken) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.any = t.any || n > 0
	return n, err
}

// conclude reads what an agent tells after content that came to its end, or failed with an error.
func (b *content) conclude(failed error) (counts string, err error) {
	n, err := io.Copy(io.Discard, io.LimitReader(b.answer.Body, maxText+1))
	if err != nil {
		return "", errors.Join(failed, err)
	}
	told, err := concluded(b.answer.Trailer)
	switch {
	case told && err != nil:
		return "", err // why the content failed
	case failed == window.ErrBroken:
		return "", corrupt("%w", failed)
	case failed != nil && !errors.Is(failed, io.ErrUnexpectedEOF):
		return "", failed
	case failed != nil || !told || n > maxText:
		return "", errCutShort(io.ErrUnexpectedEOF)
	}
	return b.answer.Trailer.Get(countsTrailer), nil
}

// Changes tell what a change did.
type Changes struct {
	Created  int64 // entries that were not there before
	Replaced int64 // that were
	Deleted  int64
	Bytes    int64 // of content
}

// Change does what a tar archive says, all of it or nothing: its entries are operations, as PUT /volume/change in proto/agent/v1 has them. It is on the disk when
// this returns, and what became of it is certain but where the link was lost (Unavailable). size is that of the archive, negative: it is not known. Precondition:
// something else is there than may be, at the path that is the error's subject. Exhausted: there is no space.
func (c *Client) Change(ctx context.Context, archive io.Reader, size int64) (Changes, error) {
	const op = "change the workspace"
	s, err := c.live(ctx)
	if err != nil {
		return Changes{}, fault.Wrap(err, op, "")
	}
	body := &reader{from: archive, left: size, exact: true}
	if size < 0 {
		body.left, body.exact = math.MaxInt64, false
	}
	told, err := c.send(ctx, s, "/volume/change", body, size)
	if failed := body.failed(); failed != nil {
		return Changes{}, fault.Wrap(failed, "read what to change", "")
	}
	var done Changes
	if err == nil {
		err = readCounts(told.Get(countsTrailer), &done.Created, &done.Replaced, &done.Deleted, &done.Bytes)
	}
	err = s.because(ctx, err)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Subject != "" && f.Op == "" {
		return Changes{}, &fault.Error{Op: op, Subject: f.Subject, Kind: f.Kind, Err: f.Err}
	}
	return done, fault.Wrap(err, op, "")
}

// readCounts reads numbers as an agent tells them.
func readCounts(said string, to ...*int64) error {
	numbers := strings.Fields(said)
	if len(numbers) != len(to) {
		return corrupt("it does not tell what it did")
	}
	for i, n := range numbers {
		v, err := strconv.ParseUint(n, 10, 63)
		if err != nil {
			return corrupt("it does not tell what it did")
		}
		*to[i] = int64(v)
	}
	return nil
}
