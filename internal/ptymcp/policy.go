package ptymcp

import (
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// target names the session that a call uses, and the caller.
type target struct {
	SessionID string `json:"session_id"`
	Owner     string `json:"owner"`
	ClientID  string `json:"client_id"`
}

// as returns the owner that the caller claims to be.
func (t target) as() string { return t.Owner }

// access describes the access that a tool needs.
type access struct {
	tool   string
	scope  session.Scope // the session's scope must include this scope
	leased bool          // if a client has claimed the session, only that client can use the tool
}

// These tools consume the output of a session or change the session. If a client has claimed the
// session, only that client can call them.
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

// observes returns the access that a tool needs if it changes nothing.
func observes(tool string) access { return access{tool, session.ReadOnly, false} }

// use returns the session that a call names, if the call has the access that the tool needs.
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
		return info, s.sessions.CheckClaim(info.ID, t.ClientID)
	}
	return info, nil
}

// checkOwner returns an error if owner is not the owner of the session.
func (s *Server) checkOwner(info session.Info, owner string) error {
	switch {
	case !s.config.RequireOwner || owner == info.Owner && owner != "":
		return nil
	case owner == "":
		return fault.New(fault.Permission, "use session", info.ID, "owner is required for this session").WithHint("pass the same owner as to pty_spawn")
	case info.Owner != "":
		return fault.New(fault.Permission, "use session", info.ID, "session owner mismatch").WithHint("pass the same owner as to pty_spawn")
	}
	return nil
}

// requireOwner returns an error if an owner is required and the call has none. Use it for calls
// that name no session.
func (s *Server) requireOwner(owner, what string) error {
	if s.config.RequireOwner && owner == "" {
		return fault.Newf(fault.Permission, "owner is required for %s", what).WithHint("choose a name, and pass it in all calls")
	}
	return nil
}
