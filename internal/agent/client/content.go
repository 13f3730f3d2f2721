package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/agent/window"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// fileChunk is how much of a file is moved at once where that does not go through the window.
const fileChunk = 1 << 20

// shared is the window, with the right to use it.
type shared struct {
	file  *os.File // nil: there is none
	inUse sync.Mutex
}

// Share has the content of files go through memory that is shared with the machine, where the machine agrees. It must be called before the first call,
// and the file stay open as long as the client is used. nil: there is none.
func (c *Client) Share(window *os.File) { c.window.file = window }

// take gives the right to use the window, unless there is none or it is in use: then the content goes over the link.
func (w *shared) take() bool { return w.file != nil && w.inUse.TryLock() }

// ReadFile copies a regular file, from an offset on and at most limit bytes where that is not 0, to a writer. It goes on where it was when the link breaks.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	var total int64
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset+total, 10)}, "limit": {"0"}}
		left := int64(math.MaxInt64)
		if limit > 0 {
			if left = limit - total; left == 0 {
				return nil
			}
			q.Set("limit", strconv.FormatInt(left, 10))
		}
		w := &writer{to: to}
		n, err := c.readContent(ctx, s, q, w, left)
		total += n
		switch {
		case w.err != nil:
			return w.err
		case err == window.ErrBroken:
			return corrupt("%w", err)
		}
		return err
	})
	return total, fault.Wrap(err, "read", path)
}

// errCutShort says that the agent did not give the whole content.
func errCutShort(err error) error {
	return fault.New(fault.Unavailable, "", "", "the agent could not read it to its end: %w", err)
}

// readContent makes the call for a file's content, of which it takes at most limit bytes.
func (c *Client) readContent(ctx context.Context, s *session, q url.Values, to io.Writer, limit int64) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var body io.Reader
	var credits *io.PipeWriter
	if limit >= window.Worth && c.window.take() {
		defer c.window.inUse.Unlock()
		body, credits = io.Pipe()
		defer credits.Close()
		q.Set("window", "1")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/file?"+q.Encode(), body)
	if err != nil {
		return 0, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := answered(resp.StatusCode, resp.Body); err != nil {
		return 0, err
	}
	var n int64
	switch granted := resp.Header.Get(window.Header) != ""; {
	case granted && credits == nil:
		return 0, window.ErrBroken
	case granted:
		n, err = window.Receive(c.window.file, to, limit, resp.Body, credits)
	default:
		n, err = io.CopyBuffer(to, struct{ io.Reader }{io.LimitReader(resp.Body, limit)}, make([]byte, fileChunk))
	}
	if err != nil && err != window.ErrBroken && !s.broken() {
		err = errCutShort(err)
	}
	return n, err
}

func kindOfStatus(status int) fault.Kind {
	switch status {
	case http.StatusBadRequest:
		return fault.Invalid
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusForbidden:
		return fault.Permission
	case http.StatusConflict, http.StatusPreconditionFailed:
		return fault.Precondition
	case http.StatusInsufficientStorage:
		return fault.Exhausted
	case http.StatusInternalServerError:
		return fault.Internal
	default:
		return fault.Corrupt
	}
}

// writer tells an error of what is written to from one of what is read.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		w.err = fmt.Errorf("%w: %w", errWriter, err)
	}
	return n, err
}

// FileSpec says what file WriteFile makes.
type FileSpec struct {
	Path        string
	Mode        fs.FileMode // permission; 0: keep that of an existing file, 0644 for a new one
	MakeParents bool
	Size        int64 // of the whole
}

// WriteFile replaces a file with exactly Size bytes from a reader. The file is the old one or the new one, never something between. It is not repeated
// when the link breaks: the old file stands.
func (c *Client) WriteFile(ctx context.Context, spec FileSpec, from io.Reader) error {
	s, err := c.live(ctx)
	if err != nil {
		return fault.Wrap(err, "write", spec.Path)
	}
	q := url.Values{
		"path": {spec.Path}, "mode": {strconv.FormatUint(uint64(spec.Mode.Perm()), 10)},
		"parents": {strconv.FormatBool(spec.MakeParents)}, "size": {strconv.FormatInt(spec.Size, 10)},
	}
	body := &reader{from: from, left: spec.Size}
	err = errWindowInUse
	if spec.Size >= window.Worth && c.window.take() {
		err = c.writeByWindow(ctx, s, q, body)
		c.window.inUse.Unlock()
	}
	if err == errWindowInUse {
		err = writeByLink(ctx, s, q, body, spec.Size)
	}
	if short := body.failed(); short != nil {
		return fault.Wrap(short, "read what to write to", spec.Path)
	}
	return fault.Wrap(s.because(ctx, err), "write", spec.Path)
}

// writeByLink sends the content as the body of the call.
func writeByLink(ctx context.Context, s *session, q url.Values, body io.Reader, size int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if size == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent/file?"+q.Encode(), body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return answered(resp.StatusCode, resp.Body)
}

// errWindowInUse says that the agent did not grant the window. Nothing of the content has been read then.
var errWindowInUse = errors.New("the window is in use")

// writeByWindow sends the content through the window.
func (c *Client) writeByWindow(ctx context.Context, s *session, q url.Values, body *reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken, records := io.Pipe()
	defer records.Close()
	q = maps.Clone(q)
	q.Set("window", "1")
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent/file?"+q.Encode(), taken)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusLocked {
		return errWindowInUse
	}
	if err := answered(resp.StatusCode, resp.Body); err != nil {
		return err
	}
	if resp.Header.Get(window.Header) == "" {
		return corrupt("it took the content without the window")
	}
	_, sent := window.Send(c.window.file, body, records, resp.Body)
	if body.failed() != nil {
		return sent // ctx is cancelled: the agent throws away what it has
	}
	records.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, window.Slots+1)); err != nil {
		return err
	}
	status, err := strconv.Atoi(resp.Trailer.Get(window.TrailerStatus))
	if err != nil {
		return errors.Join(sent, corrupt("it did not tell how the writing ended"))
	}
	said, _ := url.QueryUnescape(resp.Trailer.Get(window.TrailerError))
	return answered(status, strings.NewReader(said))
}

// reader reads exactly what a file is to hold, in large pieces, and keeps its error apart from those of the link.
type reader struct {
	from io.Reader
	left int64

	mu  sync.Mutex
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := io.ReadFull(r.from, p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
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

// answered gives the error that an answer stands for.
func answered(status int, said io.Reader) error {
	if status == http.StatusOK {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(said, 1024))
	return &fault.Error{Kind: kindOfStatus(status), Err: errors.New(strings.TrimSpace(text(string(b), maxText)))}
}
