package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Where files are served, see proto/supervisor/v1.
const (
	FilePath   = "/file"
	ListPath   = "/list"
	TreePath   = "/tree"
	ChangePath = "/change"

	MachineFilePath   = "/machine/file"
	MachineFolderPath = "/machine/folder"
	MachineListPath   = "/machine/list"
	UsagePath         = "/machine/usage"

	ErrorTrailer = "Pyro-Error" // an error, see EncodeError: a header where nothing else came, else a trailer
	WholeTrailer = "Pyro-Whole" // the content came to its end
)

// maxDrained bounds what is read of an answer beside what it is for.
const maxDrained = 64 << 10

// call makes a call on files and hands its answer's content to take.
func (c *Client) call(ctx context.Context, method, path string, q url.Values, body io.Reader, take func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var given *sent
	var content io.Reader
	if body != nil {
		given = &sent{Reader: body}
		content = given
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path+"?"+q.Encode(), content)
	if err != nil {
		return err
	}
	resp, err := c.ask(req)
	if err != nil {
		if own := given.failed(); own != nil {
			return own
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return gone(err)
	}
	defer resp.Body.Close()
	if told, ok := DecodeError(resp.Header.Get(ErrorTrailer)); ok {
		return told
	}
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
		return fault.Newf(fault.Unsupported, "its supervisor is of an older pyro, which can't do this").
			WithHint("%s, then %s", fault.Act("workspace_stop", "pyro workspace stop"), fault.Act("workspace_start", "pyro workspace start"))
	}
	if resp.StatusCode != http.StatusOK {
		return fault.Newf(fault.Internal, "its supervisor answered %s", resp.Status)
	}
	answer := &answered{Reader: resp.Body}
	taken := take(answer)
	if taken == nil {
		_, answer.err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrained))
	}
	if told, ok := DecodeError(resp.Trailer.Get(ErrorTrailer)); ok {
		return told
	}
	switch cause := context.Cause(ctx); {
	case taken != nil && answer.err == nil:
		return taken
	case cause != nil:
		return cause
	case answer.err != nil && !errors.Is(answer.err, io.EOF):
		return gone(answer.err)
	case taken != nil:
		return taken
	case resp.Trailer.Get(WholeTrailer) == "":
		return gone(io.ErrUnexpectedEOF)
	}
	return nil
}

// ask sends a request. A supervisor of an older pyro speaks HTTP/2 alone.
func (c *Client) ask(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		if resp, err := c.reads.Do(req); err == nil || req.Context().Err() != nil {
			return resp, err
		}
	}
	return c.calls.Do(req)
}

// sent keeps the error of what is sent: it is the caller's own.
type sent struct {
	io.Reader
	mu  sync.Mutex
	err error
}

func (s *sent) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

func (s *sent) failed() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// answered keeps the error of what is read apart from those of what is done with it.
type answered struct {
	io.Reader
	err error
}

func (a *answered) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if err != nil {
		a.err = err
	}
	return n, err
}

// copying gives a function that copies an answer.
func copying(to io.Writer) func(io.Reader) error {
	return func(from io.Reader) error {
		_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, 256<<10))
		return err
	}
}

// ReadFile copies a regular file of the workspace, from an offset on and at most limit bytes where that is not 0. Paths are below the workspace here and in all
// other calls.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) error {
	q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.FormatInt(limit, 10)}}
	return c.call(ctx, http.MethodGet, FilePath, q, nil, copying(to))
}

// WriteFile replaces a file as a whole, see client.WriteVolumeFile.
func (c *Client) WriteFile(ctx context.Context, path string, mode fs.FileMode, size int64, from io.Reader) error {
	q := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 10)}, "size": {strconv.FormatInt(size, 10)}}
	return c.call(ctx, http.MethodPut, FilePath, q, from, copying(io.Discard))
}

// ModeOf is the mode that a number stands for.
func ModeOf(n int64) fs.FileMode { return fs.FileMode(n).Perm() }

// List gives what is at a path: of a folder what is in it, and in all folders below it where that is wanted.
func (c *Client) List(ctx context.Context, path string, recursive bool, each func(listing.Entry) error) error {
	q := url.Values{"path": {path}, "recursive": {"0"}}
	if recursive {
		q.Set("recursive", "1")
	}
	return c.list(ctx, ListPath, q, each)
}

// Stat returns the entry at a path. It follows no link, neither on the way nor at the end: a link is itself the entry, with its target.
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

// ReadTree copies a tar of what is at a path.
func (c *Client) ReadTree(ctx context.Context, path string, to io.Writer) error {
	return c.call(ctx, http.MethodGet, TreePath, url.Values{"path": {path}}, nil, copying(to))
}

// Changed says what a change did.
type Changed struct {
	Created  int64 `json:"created"`
	Replaced int64 `json:"replaced"`
	Deleted  int64 `json:"deleted"`
	Bytes    int64 `json:"bytes"`
}

// WriteChanged writes it as an answer.
func WriteChanged(w io.Writer, c Changed) error { return json.NewEncoder(w).Encode(c) }

// Change applies a tar of changes, all or none, see client.Change.
func (c *Client) Change(ctx context.Context, from io.Reader) (Changed, error) {
	var changed Changed
	err := c.call(ctx, http.MethodPut, ChangePath, nil, from, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, maxDrained)).Decode(&changed)
	})
	return changed, err
}
