package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// FileSpec describes the file that WriteFile writes.
type FileSpec struct {
	Path        string
	Mode        fs.FileMode // permission bits; 0 keeps the mode of an existing file and gives a new one 0644
	MakeParents bool
	Size        int64 // size of the file; if negative, the file ends at the end of the reader
}

// WriteFile atomically replaces a file. The new content is exactly Size bytes from a reader, or all
// data of the reader if Size is negative. If the link breaks, WriteFile does not repeat the call.
func (c *Client) WriteFile(ctx context.Context, spec FileSpec, from io.Reader) error {
	return c.writeFile(ctx, filePath, spec, from)
}

func (c *Client) writeFile(ctx context.Context, at string, spec FileSpec, from io.Reader) error {
	s, err := c.live(ctx)
	if err != nil {
		return fault.Wrap(err, "write", spec.Path)
	}
	q := content.File{Path: spec.Path, Mode: uint32(spec.Mode.Perm()), Parents: spec.MakeParents, Size: spec.Size}.Query()
	body := &reader{from: from, left: spec.Size, exact: true}
	if spec.Size < 0 {
		body.left, body.exact = math.MaxInt64, false
	}
	_, err = c.send(ctx, s, at+"?"+q.Encode(), body, spec.Size)
	if short := body.failed(); short != nil {
		return fault.Wrap(short, "read the content for", spec.Path)
	}
	return fault.Wrap(s.errorOf(ctx, err), "write", spec.Path)
}

// send makes a call with content, and returns the trailer of the response. size is the size of the
// content, or negative if it is unknown.
func (c *Client) send(ctx context.Context, s *session, call string, body *reader, size int64) (trailer http.Header, err error) {
	err = errBufferInUse
	if (size < 0 || size >= sharedbuffer.Worth) && c.buffer.tryLock() {
		trailer, err = c.sendByBuffer(ctx, s, call, body)
		c.buffer.inUse.Unlock()
	}
	if err == errBufferInUse {
		trailer, err = sendByLink(ctx, s, call, body, size)
	}
	return trailer, err
}

// sendByLink sends the content as the body of the request.
func sendByLink(ctx context.Context, s *session, call string, body io.Reader, size int64) (trailer http.Header, err error) {
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
	return resp.Trailer, concluded(resp, nil)
}

// errBufferInUse means that the agent rejected a request for the shared buffer. In this case no
// content was read.
var errBufferInUse = errors.New("the shared buffer is in use")

// sendByBuffer sends the content through the shared buffer.
func (c *Client) sendByBuffer(ctx context.Context, s *session, call string, body *reader) (trailer http.Header, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requestBody, records := io.Pipe()
	defer records.Close()
	defer endWith(ctx, records)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent"+withBuffer(call), requestBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusLocked {
		return nil, errBufferInUse
	}
	if err := answered(resp); err != nil {
		return nil, err
	}
	if resp.Header.Get(sharedbuffer.Header) == "" {
		return nil, corrupt("it accepted the content without the shared buffer")
	}
	_, sent := sharedbuffer.Send(c.buffer.file, body, records, resp.Body)
	if failed := body.failed(); failed != nil {
		records.CloseWithError(failed) // the incomplete body tells the agent to discard the content
		return nil, sent
	}
	records.Close()
	return resp.Trailer, concluded(resp, sent)
}

// concluded returns the final error of a call that sent content. failed is the error from sending
// it. If the agent reports success, concluded ignores failed.
func concluded(resp *http.Response, failed error) error {
	said, whole, err := content.End(resp)
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case said != "":
		return decodeError(said)
	case !whole:
		return errors.Join(failed, corrupt("the response has no result"))
	}
	return nil
}

// withBuffer adds the query parameter that asks for the shared buffer.
func withBuffer(call string) string {
	if strings.Contains(call, "?") {
		return call + "&window=1"
	}
	return call + "?window=1"
}

// reader reads the content that is sent, in large pieces. It stores its error, so that callers can
// distinguish it from an error of the link.
type reader struct {
	from  io.Reader
	left  int64 // the maximum number of bytes that can still be read
	exact bool  // if the source ends before left is 0, that is an error

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
