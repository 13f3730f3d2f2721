package remote

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Paths of the file service. See proto/supervisor/v1.
const (
	FilePath   = "/file"
	ListPath   = "/list"
	TreePath   = "/tree"
	ChangePath = "/change"

	MachineFilePath   = "/machine/file"
	MachineFolderPath = "/machine/folder"
	MachineRenamePath = "/machine/rename"
	MachineListPath   = "/machine/list"
	MachineTreePath   = "/machine/tree"
	UsagePath         = "/machine/usage"
)

// call sends a request of the file service, and calls the function take with the content of the
// answer.
func (c *Client) call(ctx context.Context, method, path string, q url.Values, body io.Reader, take func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var given *content.Reader
	if body != nil {
		given = &content.Reader{From: body}
		body = given
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path+"?"+q.Encode(), body)
	if err != nil {
		return err
	}
	resp, err := c.ask(req)
	if err != nil {
		if given != nil && given.Err() != nil {
			return given.Err()
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return gone(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	answer := &content.Reader{From: resp.Body}
	taken := take(answer)
	var said string
	var whole bool
	if taken == nil || answer.Err() != nil {
		said, whole, err = content.End(resp)
	}
	switch cause := context.Cause(ctx); {
	case said != "":
		return errorOf(said)
	case taken != nil && answer.Err() == nil:
		return taken
	case cause != nil:
		return cause
	case answer.Err() != nil:
		return gone(answer.Err())
	case err != nil:
		return gone(err)
	case !whole:
		return gone(io.ErrUnexpectedEOF)
	}
	return nil
}

// refusal returns the error of a response that reports a failure.
func refusal(resp *http.Response) error {
	if sent, ok := DecodeError(resp.Header.Get(content.ErrorField)); ok {
		return sent
	}
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
		return fault.Newf(fault.Unsupported, "its supervisor is from an older pyro, which does not support this").
			WithHint("%s, then %s", fault.Act("workspace_stop", "pyro workspace stop"), fault.Act("workspace_start", "pyro workspace start"))
	}
	return fault.Newf(fault.Internal, "its supervisor answered %s", resp.Status)
}

// errorOf decodes an error that the supervisor has encoded.
func errorOf(text string) error {
	if err, ok := DecodeError(text); ok {
		return err
	}
	return fault.Newf(fault.Internal, "its supervisor answered with an error that can't be read")
}

// ask sends a request. It repeats a failed read over HTTP/2, because supervisors of older pyro
// versions do not speak HTTP/1.1.
func (c *Client) ask(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		if resp, err := c.reads.Do(req); err == nil || req.Context().Err() != nil {
			return resp, err
		}
	}
	return c.calls.Do(req)
}

// copying returns a function that copies an answer to a writer.
func copying(to io.Writer) func(io.Reader) error {
	return func(from io.Reader) error {
		_, err := content.Copy(to, from)
		return err
	}
}

// ReadFile copies a regular file of the workspace, starting at offset. It copies at most limit
// bytes; 0 means no limit. Paths in this file are relative to the workspace.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) error {
	return c.call(ctx, http.MethodGet, FilePath, content.Range{Offset: offset, Limit: limit}.Query(path), nil, copying(to))
}

// WriteFile replaces the whole content of a file. See client.WriteVolumeFile.
func (c *Client) WriteFile(ctx context.Context, path string, mode fs.FileMode, size int64, from io.Reader) error {
	q := content.File{Path: path, Mode: uint32(mode.Perm()), Parents: true, Size: size}.Query()
	return c.call(ctx, http.MethodPut, FilePath, q, from, copying(io.Discard))
}

// List calls the function each with the entry of a path. For a folder it also lists the direct
// content, or everything below the folder if recursive is true.
func (c *Client) List(ctx context.Context, path string, recursive bool, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "recursive": {"0"}}
	if recursive {
		q.Set("recursive", "1")
	}
	return c.list(ctx, ListPath, q, each)
}

// Stat returns the entry at a path. It does not follow links.
func (c *Client) Stat(ctx context.Context, path string) (found listing.Entry, err error) {
	err = c.list(ctx, ListPath, url.Values{"path": {path}, "alone": {"1"}}, func(e listing.Entry) error {
		found = e
		return nil
	})
	return found, err
}

func (c *Client) list(ctx context.Context, at string, q url.Values, each func(listing.Entry) error) error {
	return c.call(ctx, http.MethodGet, at, q, nil, func(from io.Reader) error {
		entries := listing.NewReader(from)
		for {
			e, err := entries.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = each(e)
			}
			if err != nil {
				return err
			}
		}
	})
}

// ReadTree copies a tar archive of everything at or below a path.
func (c *Client) ReadTree(ctx context.Context, path string, to io.Writer) error {
	return c.call(ctx, http.MethodGet, TreePath, url.Values{"path": {path}}, nil, copying(to))
}

// Changed reports the effects of Change.
type Changed struct {
	Created  int64 `json:"created"`
	Replaced int64 `json:"replaced"`
	Deleted  int64 `json:"deleted"`
	Bytes    int64 `json:"bytes"`
}

// WriteChanged writes the answer to a change request.
func WriteChanged(w io.Writer, c Changed) error { return json.NewEncoder(w).Encode(c) }

// Change applies a tar archive of changes, either all or none. See client.Change.
func (c *Client) Change(ctx context.Context, from io.Reader) (Changed, error) {
	var changed Changed
	err := c.call(ctx, http.MethodPut, ChangePath, nil, from, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, content.MaxDrained)).Decode(&changed)
	})
	return changed, err
}
