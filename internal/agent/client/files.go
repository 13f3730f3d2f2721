package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// fileChunk is how much of a file is moved at once.
const fileChunk = 1 << 20

// File describes one path in a machine.
type File struct {
	Mode       fs.FileMode // type and permission
	Size       int64
	ModTime    time.Time
	UID, GID   int
	LinkTarget string // of a symbolic link
}

// Stat describes one path without following a final link.
func (c *Client) Stat(ctx context.Context, path string) (File, error) {
	var f File
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.rpc.Stat(ctx, connect.NewRequest(&agentv1.StatRequest{Path: path}))
		if err != nil {
			return err
		}
		m := r.Msg
		f = File{
			Mode: fs.FileMode(m.Mode & 0o777), Size: int64(m.Size), ModTime: time.Unix(0, m.MtimeUnixNanos),
			UID: int(m.Uid), GID: int(m.Gid), LinkTarget: clip(m.LinkTarget, 4096),
		}
		for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
			if m.Mode&bit != 0 {
				f.Mode |= mode
			}
		}
		switch m.Type {
		case agentv1.FileType_FILE_TYPE_REGULAR:
		case agentv1.FileType_FILE_TYPE_DIRECTORY:
			f.Mode |= fs.ModeDir
		case agentv1.FileType_FILE_TYPE_SYMLINK:
			f.Mode |= fs.ModeSymlink
		default:
			f.Mode |= fs.ModeIrregular
		}
		return nil
	})
	return f, fault.Wrap(err, "stat", path)
}

// ReadFile copies a regular file, from an offset on and at most limit bytes where that is not 0, to a writer. It goes on where it was when the link breaks.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64, to io.Writer) (int64, error) {
	var total int64
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset+total, 10)}, "limit": {"0"}}
		if limit > 0 {
			if total >= limit {
				return nil
			}
			q.Set("limit", strconv.FormatInt(limit-total, 10))
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/file?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		resp, err := s.http.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := answered(resp); err != nil {
			return err
		}
		var from io.Reader = resp.Body
		if limit > 0 {
			from = io.LimitReader(from, limit-total)
		}
		w := &writer{to: to}
		n, err := io.CopyBuffer(w, struct{ io.Reader }{from}, make([]byte, fileChunk))
		total += n
		switch {
		case w.err != nil:
			return w.err
		case err != nil && !s.broken():
			return fault.New(fault.Unavailable, "", "", "the agent could not read it to its end: %w", err)
		}
		return err
	})
	return total, fault.Wrap(err, "read", path)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.live(ctx)
	if err != nil {
		return fault.Wrap(err, "write", spec.Path)
	}
	q := url.Values{
		"path": {spec.Path}, "mode": {strconv.FormatUint(uint64(spec.Mode.Perm()), 10)},
		"parents": {strconv.FormatBool(spec.MakeParents)}, "size": {strconv.FormatInt(spec.Size, 10)},
	}
	body := &reader{from: from, left: spec.Size}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent/file?"+q.Encode(), body)
	if err != nil {
		return fault.Wrap(err, "write", spec.Path)
	}
	req.ContentLength = spec.Size
	if spec.Size == 0 {
		req.Body = http.NoBody
	}
	resp, err := s.http.Do(req)
	if short := body.failed(); short != nil {
		return fault.Wrap(short, "read what to write to", spec.Path)
	}
	if err != nil {
		return fault.Wrap(s.because(ctx, err), "write", spec.Path)
	}
	defer resp.Body.Close()
	return fault.Wrap(answered(resp), "write", spec.Path)
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
func answered(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	return &fault.Error{Kind: kindOfStatus(resp.StatusCode), Err: errors.New(strings.TrimSpace(text(string(said), maxText)))}
}
