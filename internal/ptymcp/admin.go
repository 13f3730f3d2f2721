package ptymcp

import (
	"context"
	"errors"
	"math"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// noArguments is the request type of tools without arguments.
type noArguments struct{}

// closeAll is pty_close_all. It closes the sessions of all owners.
func (s *Server) closeAll(ctx context.Context, _ noArguments, _ func(string)) (mcp.Plain, error) {
	all, err := s.sessions.List()
	for _, info := range all {
		if e := s.sessions.Close(ctx, info.ID); fault.KindOf(e) != fault.NotFound {
			err = errors.Join(err, e)
		}
	}
	return done, err
}

// cwdRequest is the request of set_default_cwd.
type cwdRequest struct {
	Cwd string `json:"cwd"`
}

// cwdResult contains the default working folder of new sessions; null: not set.
type cwdResult struct {
	OK  bool    `json:"ok,omitempty"`
	Cwd *string `json:"cwd"`
}

// setCwd is set_default_cwd. The default applies only to this process.
func (s *Server) setCwd(_ context.Context, req cwdRequest, _ func(string)) (*cwdResult, error) {
	path := ""
	if req.Cwd != "" {
		var err error
		if path, err = realFolder(req.Cwd); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cwd = path
	return &cwdResult{true, orNull(path)}, nil
}

// getCwd is get_default_cwd.
func (s *Server) getCwd(context.Context, noArguments, func(string)) (*cwdResult, error) {
	_, cwd := s.currentLimits()
	return &cwdResult{Cwd: orNull(cwd)}, nil
}

// limitsRequest is the request of set_limits. A field that is nil does not change its limit.
type limitsRequest struct {
	OutputBytes *int64 `json:"max_output_bytes"`
	SpawnSec    *int64 `json:"spawn_timeout_sec"`
	IdleSec     *int64 `json:"idle_timeout_sec"`
	ReadMS      *int64 `json:"read_timeout_ms"`
	OutputRate  *int64 `json:"rate_limit_bps"`
	InputRate   *int64 `json:"input_rate_bps"`
}

// setLimits is set_limits. The limits apply to sessions that this process starts later.
func (s *Server) setLimits(_ context.Context, req limitsRequest, _ func(string)) (*Limits, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.limits
	*l = Limits{
		or(req.OutputBytes, l.OutputBytes), or(req.SpawnSec, l.SpawnSec), or(req.IdleSec, l.IdleSec), or(req.ReadMS, l.ReadMS), or(req.OutputRate, l.OutputRate),
		or(req.InputRate, l.InputRate),
	}
	now := *l
	return &now, nil
}

// getLimits is get_limits.
func (s *Server) getLimits(context.Context, noArguments, func(string)) (*Limits, error) {
	l, _ := s.currentLimits()
	return &l, nil
}

// metrics is the result of pty_metrics. Its numbers are sums over all sessions.
type metrics struct {
	UptimeSec    int64 `json:"uptime_sec"`
	Sessions     int   `json:"session_count"`
	Running      int   `json:"running_count"`
	MaxSessions  int   `json:"max_sessions"`
	Read         int64 `json:"bytes_read_total"`
	Written      int64 `json:"bytes_written_total"`
	Dropped      int64 `json:"rate_dropped_total"`
	InputRefused int64 `json:"input_dropped_total"`
	Truncated    int   `json:"truncated_sessions"`
}

// metrics is pty_metrics.
func (s *Server) metrics(ctx context.Context, _ noArguments, _ func(string)) (*metrics, error) {
	all, err := s.sessions.List()
	if err != nil {
		return nil, err
	}
	m := &metrics{UptimeSec: age(s.began), Sessions: len(all), MaxSessions: s.config.MaxSessions}
	for _, info := range all {
		st, err := describe(ctx, info, leaseFields{})
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if st.Running {
			m.Running++
		}
		if st.Truncated {
			m.Truncated++
		}
		m.Read, m.Written, m.InputRefused = m.Read+st.Read, m.Written+st.Written, m.InputRefused+st.InputRefused
	}
	return m, nil
}

// health is the result of pty_health.
type health struct {
	OK          bool  `json:"ok"`
	UptimeSec   int64 `json:"uptime_sec"`
	Sessions    int   `json:"session_count"`
	MaxSessions int   `json:"max_sessions"`
}

// health is pty_health.
func (s *Server) health(context.Context, noArguments, func(string)) (*health, error) {
	all, err := s.sessions.List()
	return &health{err == nil, age(s.began), len(all), s.config.MaxSessions}, err
}

// limitArgs are the arguments of set_limits.
var limitArgs = []mcp.Arg{
	mcp.Integer("max_output_bytes", "stored output of a session", 1, session.MaxOutput), mcp.Integer("spawn_timeout_sec", "0: no limit", 0, maxSeconds),
	mcp.Integer("idle_timeout_sec", "0: no limit", 0, maxSeconds), mcp.Integer("read_timeout_ms", "", 0, maxSeconds),
	mcp.Integer("rate_limit_bps", "bytes of output per second; 0: no limit", 0, math.MaxInt32), mcp.Integer("input_rate_bps", "bytes of input per second; 0: no limit", 0, math.MaxInt32),
}
