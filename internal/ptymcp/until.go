package ptymcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp/syntax"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Limits for patterns.
const (
	maxPatterns = 64
	maxPattern  = 4 << 10 // bytes
)

// untilRequest is the request of pty_read_until, pty_read_until_any and pty_prompt.
type untilRequest struct {
	readRequest
	Pattern  string   `json:"pattern"`
	Patterns []string `json:"patterns"`
	Regex    bool     `json:"regex"`
	typing
}

// matched is the result of pty_read_until.
type matched struct {
	Matched bool   `json:"matched"`
	Text    string `json:"text"`
	chunkOf
}

// matchedAny is the result of pty_read_until_any and pty_prompt.
type matchedAny struct {
	matched
	Pattern *string `json:"pattern"` // the pattern that matched; null: no pattern matched
}

// until is pty_read_until.
func (s *Server) until(ctx context.Context, req untilRequest, _ func(string)) (*matched, error) {
	info, err := s.use(req.target, readUntil)
	if err != nil {
		return nil, err
	}
	if req.Pattern == "" {
		return nil, fault.Newf(fault.Invalid, "pattern is required")
	}
	m, err := s.expect(ctx, info, req, []string{req.Pattern}, 0)
	if err != nil {
		return nil, err
	}
	return &m.matched, nil
}

// untilAny is pty_read_until_any.
func (s *Server) untilAny(ctx context.Context, req untilRequest, _ func(string)) (*matchedAny, error) {
	info, err := s.use(req.target, readUntilAny)
	if err != nil {
		return nil, err
	}
	return s.expect(ctx, info, req, req.Patterns, 0)
}

// prompt is pty_prompt. It types input, then waits for a pattern in later output.
func (s *Server) prompt(ctx context.Context, req untilRequest, _ func(string)) (*matchedAny, error) {
	info, err := s.use(req.target, prompt)
	if err != nil {
		return nil, err
	}
	if _, err := compile(req.Patterns, req.Regex); err != nil { // check the patterns before typing
		return nil, err
	}
	r, err := s.reader(info, session.Output)
	if err != nil {
		return nil, err
	}
	before := r.log.Len()
	r.close()
	if err := s.typeIn(ctx, info, req.ClientID, req.typing); err != nil {
		return nil, err
	}
	return s.expect(ctx, info, req, req.Patterns, before)
}

// expect waits until a pattern matches unread output after an offset. It consumes the output up to
// the end of the match. If no pattern matches in time, it consumes only the output that it returns.
func (s *Server) expect(ctx context.Context, info session.Info, req untilRequest, patterns []string, after int64) (*matchedAny, error) {
	find, err := compile(patterns, req.Regex)
	if err != nil {
		return nil, err
	}
	r, err := s.reader(info, session.Output)
	if err != nil {
		return nil, err
	}
	defer r.close()
	deadline := time.Now().Add(s.patience(req.TimeoutMS, defaultPatience))
	chars := s.chars(req.MaxChars)
	for {
		began := time.Now()
		cursor, seen := r.log.Cursor(), r.log.Len()
		p, err := r.log.Read(cursor, int(r.log.Limit()))
		if err != nil {
			return nil, err
		}
		echoes, err := r.echoes(ctx, cursor)
		if err != nil {
			return nil, err
		}
		which, end := printed(p, max(after, p.From), echoes, find)
		if which >= 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if !r.log.Advance(cursor, p.From+int64(end)) {
				continue // another client has read output during the search
			}
			limit := r.log.Limit()
			text, cut := last(p.Data[:end], chars)
			if cut > 0 { // pty_read_at can still read the rest
				limit = int64(len(text))
			}
			return &matchedAny{matched{true, marked(text, p.Dropped+cut > 0, limit), r.chunk(p.From + cut)}, &patterns[which]}, nil
		}
		left := time.Until(deadline)
		if p.Ended || left <= 0 {
			p, err := r.take(ctx, chars, 0)
			return &matchedAny{matched: matched{false, marked(p.Data, p.Dropped > 0, r.log.Limit()), r.chunk(p.From)}}, err
		}
		// If there is much output, spend at most half of the time on searching.
		if err := rest(ctx, min(time.Since(began), left)); err != nil {
			return nil, err
		}
		if err := r.wait(ctx, session.Request{Cursor: seen, Timeout: time.Until(deadline)}); err != nil {
			return nil, err
		}
	}
}

// printed finds the first match in the output after an offset that is not an echo. A match does not
// reach into an echo. The returned end is in bytes of p.Data.
func printed(p program.Piece, after int64, echoes []session.Range, find finder) (which, end int) {
	all := len(p.Data)
	from := min(int(after-p.From), all)
	for _, e := range echoes {
		if to := int(e.From - p.From); from < to && to < all {
			echoed := p.Data[to]
			p.Data[to] = 0 // so that the end of this part is not the end of the output for the expression
			which, end := find(p.Data[from : to+1])
			p.Data[to] = echoed
			if which >= 0 {
				return which, min(from+end, to)
			}
		}
		from = max(from, min(int(e.To-p.From), all))
	}
	which, end = find(p.Data[from:])
	return which, from + end
}

// echoes returns the parts of the output after a cursor that echo typed text.
func (r *reader) echoes(ctx context.Context, cursor int64) ([]session.Range, error) {
	a, err := r.info.Ask(ctx, session.Request{Op: session.OpEchoes, Cursor: cursor})
	switch {
	case err == nil || !a.Ended || ctx.Err() != nil:
		return a.Echoes, err
	case !r.info.Running():
		return r.info.Echoes, nil
	}
	r.info, err = r.server.sessions.Get(r.info.ID)
	return r.info.Echoes, err
}

func rest(ctx context.Context, d time.Duration) error {
	if d < time.Millisecond {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *reader) chunk(at int64) chunkOf {
	return chunkOf{at, streamNames[r.stream], epoch(time.Now())}
}

// last returns the last characters of a text, and the number of bytes before those characters.
func last(b []byte, chars int) (text []byte, cut int64) {
	at := len(b)
	for ; chars > 0 && at > 0; chars-- {
		_, n := utf8.DecodeLastRune(b[:at])
		at -= n
	}
	return b[at:], int64(at)
}

// finder finds the first match in a text. It returns the index of the pattern that matches, or -1
// if no pattern matches. It also returns the end of the match.
type finder func(text []byte) (which, end int)

// compile returns a finder for patterns. They are literal texts, or regular expressions in RE2
// syntax.
func compile(patterns []string, regex bool) (finder, error) {
	switch {
	case len(patterns) == 0:
		return nil, fault.Newf(fault.Invalid, "patterns is required")
	case len(patterns) > maxPatterns:
		return nil, fault.Newf(fault.Invalid, "%d patterns: at most %d", len(patterns), maxPatterns)
	}
	find := make([]func([]byte) []int, len(patterns))
	for i, p := range patterns {
		switch {
		case p == "":
			return nil, fault.Newf(fault.Invalid, "pattern is required: one is empty")
		case len(p) > maxPattern:
			return nil, fault.Newf(fault.Invalid, "a pattern of %d bytes: at most %d", len(p), maxPattern)
		case !regex:
			find[i] = func(text []byte) []int {
				if at := bytes.Index(text, []byte(p)); at >= 0 {
					return []int{at, at + len(p)}
				}
				return nil
			}
		default:
			e, err := newExpression(p)
			if wrong := new(syntax.Error); errors.As(err, &wrong) {
				err = fmt.Errorf("%s: %.80q", wrong.Code, wrong.Expr)
			}
			if err != nil {
				return nil, fault.Newf(fault.Invalid, "pattern %.200q: %w", p, err).WithHint("RE2 syntax; without regex a pattern is a text")
			}
			find[i] = e.find
		}
	}
	return func(text []byte) (which, end int) {
		which = -1
		first := len(text) + 1
		for i, f := range find {
			if at := f(text); at != nil && at[0] < first {
				which, first, end = i, at[0], at[1]
			}
		}
		return which, end
	}, nil
}
