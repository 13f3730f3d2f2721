package client

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// chunks are for those moves: many are of a few bytes.
var chunks = sync.Pool{New: func() any { return new([fileChunk]byte) }}

func copyChunks(to io.Writer, from io.Reader) (int64, error) {
	chunk := chunks.Get().(*[fileChunk]byte)
	defer chunks.Put(chunk)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, chunk[:])
}

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

// Where the content of files is, in the place and in the volume.
const (
	filePath       = "/file"
	volumeFilePath = "/volume/file"
)

// ReadFile copies a regular file, from an offset on and at most limit bytes where that is not 0, to a writer. It goes on where it was when the link breaks.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	return c.readFile(ctx, filePath, path, offset, limit, to)
}

func (c *Client) readFile(ctx context.Context, at, path string, offset, limit int64, to io.Writer) (int64, error) {
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
		n, err := c.readContent(ctx, s, at+"?"+q.Encode(), w, left)
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
	return fault.Newf(fault.Unavailable, "the agent could not read it to its end: %w", err)
}

// readContent makes the call for a file's content, of which it takes at most limit bytes.
func (c *Client) readContent(ctx context.Context, s *session, call string, to io.Writer, limit int64) (int64, error) {
	b, err := c.receive(ctx, s, call, limit, limit >= window.Worth)
	if err != nil {
		return 0, err
	}
	defer b.close()
	n, err := b.copy(to)
	if err != nil && err != window.ErrBroken && !s.broken() {
		err = errCutShort(err)
	}
	return n, err
}

// content is what an agent gives, through the window or as the body of its answer.
type content struct {
	io.Reader
	answer *http.Response
	window *window.Reader // nil: it does not come through the window
	end    func()
}

// receive makes a call for content, of which it takes at most limit bytes. byWindow: it is worth the window. It has to be closed.
func (c *Client) receive(ctx context.Context, s *session, call string, limit int64, byWindow bool) (*content, error) {
	ctx, cancel := context.WithCancel(ctx)
	end := cancel
	var body io.Reader
	var credits *io.PipeWriter
	if byWindow && c.window.take() {
		body, credits = io.Pipe()
		stop := endWith(ctx, credits)
		end = func() {
			stop()
			credits.Close()
			cancel()
			c.window.inUse.Unlock()
		}
		call = withWindow(call)
	}
	b, err := open(ctx, s, call, body)
	if err != nil {
		end()
		return nil, err
	}
	b.end = end
	switch granted := b.answer.Header.Get(window.Header) != ""; {
	case granted && credits == nil:
		b.close()
		return nil, window.ErrBroken
	case granted:
		b.window = window.NewReader(c.window.file, limit, b.answer.Body, credits)
		b.Reader = b.window
	default:
		b.Reader = io.LimitReader(b.answer.Body, limit)
	}
	return b, nil
}

// endWith ends the body of a request with its context, until it is told to stop that: once there is an answer, HTTP/2 does not see the end of a context while it
// waits for more of the body.
func endWith(ctx context.Context, body *io.PipeWriter) (stop func() bool) {
	return context.AfterFunc(ctx, func() { body.CloseWithError(context.Cause(ctx)) })
}

// open makes a call whose answer has content.
func open(ctx context.Context, s *session, call string, body io.Reader) (*content, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+call, body)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := answered(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return &content{answer: resp}, nil
}

// copy copies the content.
func (b *content) copy(to io.Writer) (int64, error) {
	if b.window != nil {
		return b.window.WriteTo(to)
	}
	return copyChunks(to, b.Reader)
}

func (b *content) close() {
	b.answer.Body.Close()
	b.end()
	if b.window != nil {
		b.window.Free()
	}
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

// answered gives the error that an answer stands for.
func answered(resp *http.Response) error {
	b := []byte(nil)
	if resp.StatusCode != http.StatusOK {
		b, _ = io.ReadAll(io.LimitReader(resp.Body, maxText))
	}
	return refused(resp.StatusCode, string(b), resp.Header.Get(pathHeader))
}

// concluded gives the error that trailers tell, if they tell how a call ended.
func concluded(trailer http.Header) (told bool, err error) {
	status, err := strconv.Atoi(trailer.Get(window.TrailerStatus))
	if err != nil {
		return false, nil
	}
	said, _ := url.QueryUnescape(trailer.Get(window.TrailerError))
	return true, refused(status, said, trailer.Get(pathHeader))
}

// What answers tell in headers and trailers beside how they ended.
const (
	pathHeader    = "Path"   // of an error: what it is about
	countsTrailer = "Counts" // what was done
)

// refused gives the error that a status stands for, and what it is about.
func refused(status int, said, path string) error {
	if status == http.StatusOK {
		return nil
	}
	about, _ := url.QueryUnescape(path)
	return &fault.Error{Kind: kindOfStatus(status), Subject: clip(about, maxPath), Err: errors.New(strings.TrimSpace(text(said, maxText)))}
}

// maxPath bounds a path that an agent names.
const maxPath = 4096
