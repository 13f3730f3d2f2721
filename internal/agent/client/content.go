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

	"github.com/pyro-mcp/pyro/internal/agent/sharedbuffer"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// sharedFile is the machine's shared buffer, with a lock for the transfer that uses it.
type sharedFile struct {
	file  *os.File // nil if the machine has none
	inUse sync.Mutex
}

// Share lets large transfers of file content use buffer. The buffer is memory that the machine
// shares with the client (internal/agent/sharedbuffer). Call Share before all other methods. The
// file must stay open while the client is in use. A nil buffer has no effect.
func (c *Client) Share(buffer *os.File) { c.buffer.file = buffer }

// tryLock locks the shared buffer. It returns false if there is no buffer or the buffer is in use.
// The content then goes over the link.
func (b *sharedFile) tryLock() bool { return b.file != nil && b.inUse.TryLock() }

// Paths of the calls for file content: in the machine's root and in its volume.
const (
	filePath       = "/file"
	volumeFilePath = "/volume/file"
)

// ReadFile copies a regular file to a writer, starting at offset. It copies at most limit bytes;
// with limit 0 it copies to the end of the file. If the link breaks, ReadFile continues in a new
// session. It returns the number of bytes written.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	return c.readFile(ctx, filePath, path, offset, limit, to)
}

func (c *Client) readFile(ctx context.Context, at, path string, offset, limit int64, to io.Writer) (int64, error) {
	var total int64
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		part, left := content.Range{Offset: offset + total}, int64(math.MaxInt64)
		if limit > 0 {
			if left = limit - total; left == 0 {
				return nil
			}
			part.Limit = left
		}
		b, err := c.receive(ctx, s, at+"?"+part.Query(path).Encode(), left, left >= sharedbuffer.Worth)
		if err != nil {
			return err
		}
		defer b.close()
		w := &writer{to: to}
		n, err := b.copy(w)
		if total += n; w.err != nil {
			return w.err
		}
		if err == nil && n == left {
			return nil // all requested bytes have arrived, so the rest of the response does not matter
		}
		if err = b.conclude(err); err != nil && !s.broken() && !errors.As(err, new(*fault.Error)) {
			return errCutShort(err)
		}
		return err
	})
	return total, fault.Wrap(err, "read", path)
}

// errCutShort returns the error for content that ended too early.
func errCutShort(err error) error {
	return fault.Newf(fault.Unavailable, "the agent could not read it to its end: %w", err)
}

// received is the content of a response. The content arrives in the body or through the shared
// buffer.
type received struct {
	io.Reader
	answer *http.Response
	buffer *sharedbuffer.Reader // nil if the content is in the body
	end    func()
}

// receive makes a call for content. The result returns at most limit bytes of it. With useBuffer,
// receive asks for a transfer through the shared buffer. The caller must close the result.
func (c *Client) receive(ctx context.Context, s *session, call string, limit int64, useBuffer bool) (*received, error) {
	ctx, cancel := context.WithCancel(ctx)
	end := cancel
	var body io.Reader
	var credits *io.PipeWriter
	if useBuffer && c.buffer.tryLock() {
		body, credits = io.Pipe()
		stop := endWith(ctx, credits)
		end = func() {
			stop()
			credits.Close()
			cancel()
			c.buffer.inUse.Unlock()
		}
		call = withBuffer(call)
	}
	b, err := open(ctx, s, call, body)
	if err != nil {
		end()
		return nil, err
	}
	b.end = end
	switch granted := b.answer.Header.Get(sharedbuffer.Header) != ""; {
	case granted && credits == nil:
		b.close()
		return nil, sharedbuffer.ErrBroken
	case granted:
		b.buffer = sharedbuffer.NewReader(c.buffer.file, limit, b.answer.Body, credits)
		b.Reader = b.buffer
	default:
		b.Reader = io.LimitReader(b.answer.Body, limit)
	}
	return b, nil
}

// endWith closes the request body when ctx ends, unless stop is called before. This is needed
// because HTTP/2 ignores ctx after the response header while it waits for the request body.
func endWith(ctx context.Context, body *io.PipeWriter) (stop func() bool) {
	return context.AfterFunc(ctx, func() { body.CloseWithError(context.Cause(ctx)) })
}

// open makes a call and checks the header of its response.
func open(ctx context.Context, s *session, call string, body io.Reader) (*received, error) {
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
	return &received{answer: resp}, nil
}

// copy copies the content to a writer.
func (b *received) copy(to io.Writer) (int64, error) {
	if b.buffer != nil {
		return b.buffer.WriteTo(to)
	}
	return content.Copy(to, b.Reader)
}

func (b *received) close() {
	b.answer.Body.Close()
	b.end()
	if b.buffer != nil {
		b.buffer.Free()
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
	case http.StatusUnprocessableEntity:
		return fault.Exists
	case http.StatusConflict, http.StatusPreconditionFailed:
		return fault.Precondition
	case http.StatusInsufficientStorage:
		return fault.Exhausted
	case http.StatusServiceUnavailable:
		return fault.Unavailable
	case http.StatusInternalServerError:
		return fault.Internal
	default:
		return fault.Corrupt
	}
}

// writer marks errors from its destination with errWriter, to distinguish them from read errors.
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

// answered returns the error that a response header reports, or nil if the header reports none.
func answered(resp *http.Response) error {
	if text, failed := content.Failed(resp); failed {
		return decodeError(text)
	}
	if resp.StatusCode != http.StatusOK {
		return &fault.Error{Kind: kindOfStatus(resp.StatusCode), Err: fmt.Errorf("the agent answered with status %d", resp.StatusCode)}
	}
	return nil
}

// decodeError decodes an error from the agent.
func decodeError(said string) error {
	q, _ := url.ParseQuery(said) // if the query is partly invalid, ParseQuery still returns the valid part
	status, _ := strconv.Atoi(q.Get("status"))
	return &fault.Error{Kind: kindOfStatus(status), Subject: clip(q.Get("path"), maxPath), Err: errors.New(strings.TrimSpace(text(q.Get("text"), maxText)))}
}

// countsTrailer is the HTTP trailer with the counts of a call.
const countsTrailer = "Counts"

// maxPath limits a path from an agent, in bytes.
const maxPath = 4096
