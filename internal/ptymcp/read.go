package ptymcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// readRequest is the request of all reads. A field that is nil has a default.
type readRequest struct {
	target
	MaxChars     *int   `json:"max_chars"`
	TimeoutMS    *int64 `json:"timeout_ms"`
	QuiescenceMS *int64 `json:"quiescence_ms"`
	Format       string `json:"format"`
}

// chunk is the result of a read in JSON format.
type chunk struct {
	ID        int64   `json:"chunk_id"` // offset of the text in its stream, for pty_read_at
	Stream    string  `json:"stream"`   // pty, stdout or stderr
	Text      string  `json:"text"`
	Timestamp float64 `json:"timestamp"` // seconds since 1970
}

// streamNames are the names that the tools use for streams.
var streamNames = map[session.Stream]string{session.Output: "pty", session.Stdout: "stdout", session.Stderr: "stderr"}

// chars returns the maximum number of characters to read.
func (s *Server) chars(asked *int) int {
	if asked == nil {
		return s.config.MaxChars
	}
	return *asked
}

// patience returns how long a call waits. It returns the requested time or, if there is none, the
// default. The time is limited to READ_UNTIL_MAX_MS.
func (s *Server) patience(asked *int64, byDefault time.Duration) time.Duration {
	if asked != nil {
		byDefault = time.Duration(*asked) * time.Millisecond
	}
	return min(byDefault, s.config.UntilMax)
}

// read returns the tool pty_read, pty_read_stdout or pty_read_stderr.
func (s *Server) read(a access, stream session.Stream) func(context.Context, readRequest, func(string)) (any, error) {
	return func(ctx context.Context, req readRequest, _ func(string)) (any, error) {
		info, err := s.use(req.target, a)
		if err != nil {
			return nil, err
		}
		r, err := s.reader(info, stream)
		if err != nil {
			return nil, err
		}
		defer r.close()
		p, err := r.take(ctx, s.chars(req.MaxChars), s.patience(req.TimeoutMS, info.ReadTimeout))
		return r.formatted(p, req.Format), err
	}
}

// readQuiescent is pty_read_quiescent. It waits for output, then for a pause in the output.
func (s *Server) readQuiescent(ctx context.Context, req readRequest, _ func(string)) (any, error) {
	info, err := s.use(req.target, readQuiet)
	if err != nil {
		return nil, err
	}
	r, err := s.reader(info, session.Output)
	if err != nil {
		return nil, err
	}
	defer r.close()
	quiet := s.config.Quiescence
	if req.QuiescenceMS != nil {
		quiet = time.Duration(*req.QuiescenceMS) * time.Millisecond
	}
	deadline := time.Now().Add(s.patience(req.TimeoutMS, defaultPatience))
	for r.log.Len() <= r.log.Cursor() && !r.log.Ended() && time.Now().Before(deadline) {
		if err := r.wait(ctx, session.Request{Cursor: r.log.Cursor(), Timeout: time.Until(deadline)}); err != nil {
			return nil, err
		}
	}
	if left := time.Until(deadline); left > 0 && quiet > 0 && !r.log.Ended() {
		if err := r.wait(ctx, session.Request{Idle: quiet, Timeout: left}); err != nil {
			return nil, err
		}
	}
	p, err := r.take(ctx, s.chars(req.MaxChars), 0)
	return r.formatted(p, req.Format), err
}

// defaultPatience is the default time that a call waits for a specific event.
const defaultPatience = 10 * time.Second

// reader reads a stream of a session.
type reader struct {
	server *Server
	info   session.Info
	stream session.Stream
	log    *program.SharedLog
}

// reader opens a stream of a session. The caller must close the reader.
func (s *Server) reader(info session.Info, stream session.Stream) (*reader, error) {
	if stream != session.Output && !info.Separate {
		return nil, fault.New(fault.Precondition, "read session", info.ID, "it has no %s: it was spawned without separate_streams", streamNames[stream]).WithHint("pty_read")
	}
	l, err := info.Folder.Log(stream)
	if err != nil {
		return nil, fault.Wrap(err, "read session", info.ID)
	}
	r := &reader{s, info, stream, l}
	r.used()
	return r, nil
}

func (r *reader) close() { r.log.Close() }

// used records a use of the session.
func (r *reader) used() {
	if r.stream == session.Output {
		r.log.Mark().Store(time.Now().UnixNano())
	} else {
		touch(r.info)
	}
}

// touch records a use of a session.
func touch(info session.Info) {
	if l, err := info.Folder.Log(session.Output); err == nil {
		l.Mark().Store(time.Now().UnixNano())
		l.Close()
	}
}

// take consumes unread output. It waits until there is some output, the session has ended, or the
// timeout has expired. A cancelled call consumes nothing.
func (r *reader) take(ctx context.Context, chars int, patience time.Duration) (program.Piece, error) {
	deadline := time.Now().Add(patience)
	for {
		if ctx.Err() != nil {
			return program.Piece{}, context.Cause(ctx)
		}
		seen := r.log.Len()
		p, err := r.log.Take(chars)
		left := time.Until(deadline)
		if err != nil || len(p.Data) > 0 || p.Ended || left <= 0 {
			return p, err
		}
		if err := r.wait(ctx, session.Request{Cursor: seen, Timeout: left}); err != nil {
			return p, err
		}
	}
}

// wait waits as the request says. If the session ends during the wait, wait also updates its state.
func (r *reader) wait(ctx context.Context, req session.Request) error {
	req.Op, req.Stream = session.OpWait, r.stream
	a, err := r.info.Ask(ctx, req)
	if !a.Ended || ctx.Err() != nil {
		return err
	}
	_, err = r.server.sessions.Get(r.info.ID)
	return err
}

// formatted returns a piece of output in the requested format.
func (r *reader) formatted(p program.Piece, format string) any {
	text := marked(p.Data, p.Dropped > 0, r.log.Limit())
	if format == "json" {
		return chunk{p.From, streamNames[r.stream], text, epoch(time.Now())}
	}
	return mcp.Plain(text)
}

// marked returns output as text. If earlier output is missing, the first line says so.
func marked(b []byte, truncated bool, limit int64) string {
	text := strings.ToValidUTF8(string(b), "\ufffd")
	if truncated {
		text = fmt.Sprintf("[pty-mcp] output truncated (limit %d bytes)\n", limit) + text
	}
	return text
}

func epoch(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// readAtRequest is the request of pty_read_at.
type readAtRequest struct {
	target
	Offset   int64  `json:"offset"`
	MaxChars *int   `json:"max_chars"`
	Stream   string `json:"stream"`
}

// readAtResult is the result of pty_read_at.
type readAtResult struct {
	Truncated bool   `json:"truncated"` // the output at the offset is no longer stored; continue at NextOffset
	Text      string `json:"text"`
	Next      int64  `json:"next_offset"`
	chunkOf
}

// chunkOf contains the fields that results with output have in common.
type chunkOf struct {
	ID        int64   `json:"chunk_id"`
	Stream    string  `json:"stream"`
	Timestamp float64 `json:"timestamp"`
}

// readAt is pty_read_at. It does not consume the output.
func (s *Server) readAt(_ context.Context, req readAtRequest, _ func(string)) (*readAtResult, error) {
	info, err := s.use(req.target, observes("pty_read_at"))
	if err != nil {
		return nil, err
	}
	stream := session.Output
	for known, name := range streamNames {
		if name == req.Stream {
			stream = known
		}
	}
	r, err := s.reader(info, stream)
	if err != nil {
		return nil, err
	}
	defer r.close()
	p, err := r.log.Read(req.Offset, s.chars(req.MaxChars))
	if err != nil {
		return nil, fault.Wrap(err, "read session", info.ID)
	}
	result := &readAtResult{Text: marked(p.Data, false, 0), Next: p.Next, chunkOf: chunkOf{p.From, streamNames[stream], epoch(time.Now())}}
	if p.Dropped > 0 {
		result.Truncated, result.Text, result.Next = true, "", p.From
	}
	return result, nil
}
