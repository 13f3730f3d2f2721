package ptymcp

import (
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// target is which session a call is about, and who calls.
type target struct {
	SessionID string `json:"session_id"`
	Owner     string `json:"owner"`
	ClientID  string `json:"client_id"`
}

// as is who calls.
func (t target) as() string { return t.Owner }

// access is what a tool needs.
type access struct {
	tool   string
	scope  session.Scope // that the session must have at least
	leased bool          // it is for the client that the session is attached to, if it is
}

// The tools that take something from a session, or do something to it: only the client that it is attached to may.
var (
	readOutput   = access{"pty_read", session.ReadOnly, true}
	readStdout   = access{"pty_read_stdout", session.ReadOnly, true}
	readStderr   = access{"pty_read_stderr", session.ReadOnly, true}
	readUntil    = access{"pty_read_until", session.ReadOnly, true}
	readUntilAny = access{"pty_read_until_any", session.ReadOnly, true}
	readQuiet    = access{"pty_read_quiescent", session.ReadOnly, true}
	prompt       = access{"pty_prompt", session.ReadWrite, true}
	write        = access{"pty_write", session.ReadWrite, true}
	sendSecret   = access{"pty_send_secret", session.ReadWrite, true}
	resize       = access{"pty_resize", session.ReadWrite, true}
	closing      = access{"pty_close", session.ReadWrite, true}
	signal       = access{"pty_signal", session.Control, true}
)

// observes is what a tool needs that leaves everything as it is.
func observes(tool string) access { return access{tool, session.ReadOnly, false} }

// use gives a session to a tool that may use it.
func (s *Server) use(t target, a access) (session.Info, error) {
	info, err := s.sessions.Get(t.SessionID)
	if err != nil {
		return info, err
	}
	if err := s.checkOwner(info, t.Owner); err != nil {
		return info, err
	}
	if !info.Scope.Allows(a.scope) {
		readOnly := ""
		if info.Scope == session.ReadOnly {
			readOnly = "read-only session: "
		}
		return info, fault.New(fault.Permission, "use session", info.ID, "%sscope '%s' does not allow tool '%s'", readOnly, info.Scope, a.tool)
	}
	if a.leased {
		return info, s.sessions.CheckLease(info.ID, t.ClientID)
	}
	return info, nil
}

// checkOwner refuses who is not the owner of a session, where it has one.
func (s *Server) checkOwner(info session.Info, owner string) error {
	switch {
	case !s.config.RequireOwner || owner == info.Owner && owner != "":
		return nil
	case owner == "":
		return fault.New(fault.Permission, "use session", info.ID, "owner is required for this session").WithHint("give the owner that pty_spawn was given")
	case info.Owner != "":
		return fault.New(fault.Permission, "use session", info.ID, "session owner mismatch").WithHint("give the owner that pty_spawn was given")
	}
	return nil
}

// requireOwner refuses a call without an owner, of a tool that is about no session yet.
func (s *Server) requireOwner(owner, what string) error {
	if s.config.RequireOwner && owner == "" {
		return fault.Newf(fault.Permission, "owner is required for %s", what).WithHint("give any name that is yours, the same in all calls")
	}
	return nil
}
