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
	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// A path in the volume is relative to the workspace. The empty path is the workspace itself. A path
// has no empty elements, no "." and no "..", but can contain any byte except NUL. Links before the
// last element are followed within the workspace. Permission: a link leads out of the workspace.
// Precondition: the volume is not mounted.

// ReadVolumeFile copies a regular file of the volume, like [Client.ReadFile].
func (c *Client) ReadVolumeFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	return c.readFile(ctx, volumeFilePath, path, offset, limit, to)
}

// WriteVolumeFile replaces a file of the volume, like [Client.WriteFile]. When it returns without
// an error, the file is on the disk.
func (c *Client) WriteVolumeFile(ctx context.Context, spec FileSpec, from io.Reader) error {
	return c.writeFile(ctx, volumeFilePath, spec, from)
}

// List calls a function for the entry at a path of the volume, then for the entries of that folder.
// If recursive is true, it calls the function for all entries below the path. A folder comes before
// its content, and names are in byte order. The paths of entries are relative to the requested
// path.
//
// If the function returns an error, List returns that error unchanged. If the link breaks after the
// first entry, List is not repeated. The error then has the kind Unavailable.
func (c *Client) List(ctx context.Context, path string, recursive bool, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return c.list(ctx, "/volume/list?"+q.Encode(), path, recursive, each)
}

// StatVolume returns the entry at a path of the volume. It follows no symbolic link, not even
// within the path.
func (c *Client) StatVolume(ctx context.Context, path string) (found listing.Entry, err error) {
	q := url.Values{"path": {path}, "recursive": {"false"}, "alone": {"1"}}
	err = c.list(ctx, "/volume/list?"+q.Encode(), path, false, func(e listing.Entry) error {
		found = e
		return nil
	})
	return found, err
}

func (c *Client) list(ctx context.Context, call, path string, useBuffer bool, each func(listing.Entry) error) error {
	var eachErr error
	_, err := c.generated(ctx, call, useBuffer, func(from io.Reader) error {
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
			if eachErr = each(e); eachErr != nil {
				return errWriter
			}
		}
	})
	if eachErr != nil {
		return eachErr
	}
	return fault.Wrap(err, "list", path)
}

// TreeCounts describes the content of an archive.
type TreeCounts struct {
	Entries int64
	Skipped int64 // sockets, pipes and devices, which are not in the archive
	Changed int64 // files that changed while they were read
}

// ReadTree writes the entry at a path of the volume, and everything below it, as a tar archive in
// PAX format. Names in the archive start with the last element of the path, or with "." for the
// workspace. If ReadTree fails, the archive is incomplete. If the link breaks after the first byte,
// ReadTree is not repeated. The error then has the kind Unavailable.
func (c *Client) ReadTree(ctx context.Context, path string, to io.Writer) (TreeCounts, error) {
	return c.tree(ctx, "/volume/tree?"+url.Values{"path": {path}}.Encode(), path, to)
}

// generated makes a call for content that the agent generates. It passes the content to the
// function consume, and returns the counts from the trailer. If the link breaks after consume has
// received data, generated does not repeat the call.
func (c *Client) generated(ctx context.Context, call string, useBuffer bool, consume func(io.Reader) error) (counts string, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		b, err := c.receive(ctx, s, call, math.MaxInt64, useBuffer)
		if err != nil {
			return err
		}
		defer b.close()
		from := &content.Reader{From: b.Reader}
		err = consume(from)
		if errors.Is(err, errWriter) {
			return err
		}
		err = b.conclude(err)
		counts = b.answer.Trailer.Get(countsTrailer)
		if err != nil && from.Any() && s.broken() {
			err = fault.Newf(fault.Unavailable, "the link to the machine broke before the content was complete")
		}
		return err
	})
	return counts, err
}

// conclude returns the final error of a response. failed is the error from reading its content, or
// nil if the content was read to its end.
func (b *received) conclude(failed error) error {
	said, whole, err := content.End(b.answer)
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case said != "":
		return decodeError(said) // the agent's own error is the cause of the failure
	case failed == sharedbuffer.ErrBroken:
		return corrupt("%w", failed)
	case failed != nil && !errors.Is(failed, io.ErrUnexpectedEOF):
		return failed
	case failed != nil || !whole:
		return errCutShort(io.ErrUnexpectedEOF)
	}
	return nil
}

// Changes counts the effects of a change.
type Changes struct {
	Created  int64 // new entries
	Replaced int64 // existing entries, except directories
	Deleted  int64
	Bytes    int64 // size of all written content
}

// Change applies the operations of a tar archive to the volume, either all or none. For the
// operations see PUT /volume/change in proto/agent/v1. size is the size of the archive, or negative
// if it is unknown. When Change returns without an error, the change is on the disk.
//
// Precondition: an entry is not as expected; the subject of the error is its path. Exhausted: the
// disk is full. Unavailable: the link broke, and the change might have been applied.
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
	trailer, err := c.send(ctx, s, "/volume/change", body, size)
	if failed := body.failed(); failed != nil {
		return Changes{}, fault.Wrap(failed, "read the archive", "")
	}
	var done Changes
	if err == nil {
		err = readCounts(trailer.Get(countsTrailer), &done.Created, &done.Replaced, &done.Deleted, &done.Bytes)
	}
	err = s.errorOf(ctx, err)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Subject != "" && f.Op == "" {
		return Changes{}, &fault.Error{Op: op, Subject: f.Subject, Kind: f.Kind, Err: f.Err}
	}
	return done, fault.Wrap(err, op, "")
}

// readCounts parses the counts in a trailer.
func readCounts(said string, to ...*int64) error {
	numbers := strings.Fields(said)
	if len(numbers) != len(to) {
		return corrupt("invalid counts of a call: %q", text(said, 64))
	}
	for i, n := range numbers {
		v, err := strconv.ParseUint(n, 10, 63)
		if err != nil {
			return corrupt("invalid counts of a call: %q", text(said, 64))
		}
		*to[i] = int64(v)
	}
	return nil
}
