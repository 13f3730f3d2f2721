package ptymcp

import (
	"context"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// close is pty_close. It ends the session and removes it.
func (s *Server) close(ctx context.Context, req target, _ func(string)) (mcp.Plain, error) {
	info, err := s.use(req, closing)
	if err == nil {
		err = s.sessions.CloseFor(ctx, info.ID, req.ClientID)
	}
	return done, err
}

// signalRequest is the request of pty_signal.
type signalRequest struct {
	target
	Signal string `json:"sig"`
}

// signalResult is the result of pty_signal.
type signalResult struct {
	OK       bool   `json:"ok"`
	Note     string `json:"note,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
}

// signalNames are the signals that pty_signal accepts.
const signalNames = "INT, TERM, KILL, HUP, QUIT, TSTP, CONT, USR1 or USR2"

// signal is pty_signal. Signal names can begin with "SIG".
func (s *Server) signal(ctx context.Context, req signalRequest, _ func(string)) (*signalResult, error) {
	info, err := s.use(req.target, signal)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(req.Signal)), "SIG")
	if _, known := session.Signals[name]; !known {
		return nil, fault.Newf(fault.Invalid, "unsupported signal: %.40q", req.Signal).WithHint("%s", signalNames)
	}
	if info.Backend == session.Tmux {
		return nil, fault.Newf(fault.Unsupported, "pty_signal is not supported for tmux sessions").WithHint(`pty_write with keys, such as "ctrl-c"`)
	}
	if info.Running() {
		a, err := info.Ask(ctx, session.Request{Op: session.OpSignal, Signal: name, Client: req.ClientID})
		if !a.Ended {
			return &signalResult{OK: true}, err
		}
		if info, err = s.sessions.Get(info.ID); err != nil {
			return nil, err
		}
	}
	return &signalResult{OK: true, Note: "already exited", ExitCode: info.ExitCode}, nil
}
