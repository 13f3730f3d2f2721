package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/agent/window"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// FileSpec says what file WriteFile makes.
type FileSpec struct {
	Path        string
	Mode        fs.FileMode // permission; 0: keep that of an existing file, 0644 for a new one
	MakeParents bool
	Size        int64 // of the whole; negative: not known, and the reader's end is that of the file
}

// WriteFile replaces a file with exactly Size bytes from a reader, or with all that it gives. The file is the old one or the new one, never something between. It is not repeated
// when the link breaks: the old file stands.
func (c *Client) WriteFile(ctx context.Context, spec FileSpec, from io.Reader) error {
	return c.writeFile(ctx, filePath, spec, from)
}

func (c *Client) writeFile(ctx context.Context, at string, spec FileSpec, from io.Reader) error {
	s, err := c.live(ctx)
	if err != nil {
		return fault.Wrap(err, "write", spec.Path)
	}
	q := url.Values{
		"path": {spec.Path}, "mode": {strconv.FormatUint(uint64(spec.Mode.Perm()), 10)},
		"parents": {strconv.FormatBool(spec.MakeParents)}, "size": {strconv.FormatInt(spec.Size, 10)},
	}
	body := &reader{from: from, left: spec.Size, exact: true}
	if spec.Size < 0 {
		body.left, body.exact = math.MaxInt64, false
	}
	_, err = c.send(ctx, s, at+"?"+q.Encode(), body, spec.Size)
	if short := body.failed(); short != nil {
		return fault.Wrap(short, "read what to write to", spec.Path)
	}
	return fault.Wrap(s.because(ctx, err), "write", spec.Path)
}

// send makes a call that brings content, of a size where that is not negative, and gives what the answer tells in its trailers.
func (c *Client) send(ctx context.Context, s *session, call string, body *reader, size int64) (told http.Header, err error) {
	err = errWindowInUse
	if (size < 0 || size >= window.Worth) && c.window.take() {
		told, err = c.sendByWindow(ctx, s, call, body)
		c.window.inUse.Unlock()
	}
	if err == errWindowInUse {
		told, err = sendByLink(ctx, s, call, body, size)
	}
	return told, err
}

// sendByLink sends the content as the body of the call.
func sendByLink(ctx context.Context, s *session, call string, body io.Reader, size int64) (told http.Header, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if size == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent"+call, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := answered(resp); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxText))
	return resp.Trailer, err
}

// errWindowInUse says that the agent did not grant the window. Nothing of the content has been read then.
var errWindowInUse = errors.New("the window is in use")

// sendByWindow sends the content through the window.
func (c *Client) sendByWindow(ctx context.Context, s *session, call string, body *reader) (told http.Header, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken, records := io.Pipe()
	defer records.Close()
	defer endWith(ctx, records)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent"+withWindow(call), taken)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusLocked {
		return nil, errWindowInUse
	}
	if err := answered(resp); err != nil {
		return nil, err
	}
	if resp.Header.Get(window.Header) == "" {
		return nil, corrupt("it took the content without the window")
	}
	_, sent := window.Send(c.window.file, body, records, resp.Body)
	if failed := body.failed(); failed != nil {
		records.CloseWithError(failed) // so that the body has no end: the agent throws away what it has
		return nil, sent
	}
	records.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, window.Slots+1)); err != nil {
		return nil, err
	}
	said, err := concluded(resp.Trailer)
	if !said {
		return nil, errors.Join(sent, corrupt("it did not tell how the writing ended"))
	}
	return resp.Trailer, err
}

// withWindow asks a call to use the window.
func withWindow(call string) string {
	if strings.Contains(call, "?") {
		return call + "&window=1"
	}
	return call + "?window=1"
}

// reader reads what is sent in large pieces, and keeps its error apart from those of the link.
type reader struct {
	from  io.Reader
	left  int64 // that is sent at most
	exact bool  // that much, and no less

	mu  sync.Mutex
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := io.ReadFull(r.from, p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	switch {
	case !r.exact && (err == io.EOF || err == io.ErrUnexpectedEOF && n > 0):
		r.left = 0
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}
	return n, err
}

func (r *reader) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
