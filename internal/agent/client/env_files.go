package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// ListMachine lists an absolute path of the machine. It includes the entries below the path, down
// to depth levels, and otherwise works like [Client.List]. With depth 0 it returns only the entry
// itself, and does not follow a link at the end of the path.
func (c *Client) ListMachine(ctx context.Context, path string, depth int, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}}
	return c.list(ctx, "/list?"+q.Encode(), path, depth > 1, each)
}

// MakeFolder creates a folder of the machine and its missing parents. It is idempotent.
// Precondition: the path exists and is not a folder.
func (c *Client) MakeFolder(ctx context.Context, path string) error {
	return fault.Wrap(c.act(ctx, http.MethodPut, "/folder", url.Values{"path": {path}}), "make folder", path)
}

// Remove removes the entry at a path of the machine and everything below it. It removes a link
// itself, not its target.
func (c *Client) Remove(ctx context.Context, path string) error {
	return fault.Wrap(c.act(ctx, http.MethodDelete, filePath, url.Values{"path": {path}}), "remove", path)
}

// Rename moves the entry at a path of the machine, with everything below it, to a free path. It
// moves a link itself, not its target. Exists: the new path exists. It is not idempotent.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	err := c.act(ctx, http.MethodPut, "/rename", url.Values{"path": {from}, "to": {to}})
	var e *fault.Error
	if fault.KindOf(err) == fault.NotFound && errors.As(err, &e) && e.Subject != "" { // the parent of the new path
		err = e.WithHint("make this folder first")
	}
	return fault.Wrap(err, "rename", from)
}

// act makes a call without content. If the link breaks, act does not repeat the call, because
// another program could have created a removed path again.
func (c *Client) act(ctx context.Context, method, at string, q url.Values) error {
	s, err := c.live(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+at+"?"+q.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return s.errorOf(ctx, err)
	}
	defer resp.Body.Close()
	if err := answered(resp); err != nil {
		return err
	}
	return s.errorOf(ctx, concluded(resp, nil))
}
