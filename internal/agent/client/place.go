package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// ListPlace calls each with what is at an absolute path of the machine, and with what is in it to a depth, as [Client.List] does. With depth 0 it is that alone,
// and a link as such.
func (c *Client) ListPlace(ctx context.Context, path string, depth int, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}}
	return c.list(ctx, "/list?"+q.Encode(), path, depth > 1, each)
}

// MakeFolder makes a folder of the machine, and those above it that are missing. Idempotent. Precondition: something else is there.
func (c *Client) MakeFolder(ctx context.Context, path string) error {
	return fault.Wrap(c.act(ctx, http.MethodPut, "/folder", path), "make folder", path)
}

// Remove removes what is at a path of the machine, with all below it, and follows no link.
func (c *Client) Remove(ctx context.Context, path string) error {
	return fault.Wrap(c.act(ctx, http.MethodDelete, filePath, path), "remove", path)
}

// act makes a call that only does something. It is not made again when the link breaks: what it removes may have come back by then.
func (c *Client) act(ctx context.Context, method, at, path string) error {
	s, err := c.live(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+at+"?"+url.Values{"path": {path}}.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return s.because(ctx, err)
	}
	defer resp.Body.Close()
	if err := answered(resp); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxText))
	return s.because(ctx, err)
}
