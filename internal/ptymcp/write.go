package ptymcp

import (
	"bytes"
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// typing is input and its confirmation.
type typing struct {
	Data string   `json:"data"`
	Keys []string `json:"keys"` // typed after Data
	confirmation
}

// writeRequest is the request of pty_write.
type writeRequest struct {
	target
	typing
}

// done is the result of tools that have no other result.
const done = mcp.Plain("ok")

// write is pty_write. It types either all of the input or nothing.
func (s *Server) write(ctx context.Context, req writeRequest, _ func(string)) (mcp.Plain, error) {
	info, err := s.use(req.target, write)
	if err != nil {
		return "", err
	}
	if req.Data == "" && len(req.Keys) == 0 {
		return "", fault.Newf(fault.Invalid, "data or keys is required")
	}
	return done, s.typeIn(ctx, info, req.ClientID, req.typing)
}

// typeIn checks input, then types it.
func (s *Server) typeIn(ctx context.Context, info session.Info, client string, t typing) error {
	input := session.Request{Op: session.OpInput, Client: client}
	keys, err := sequences(t.Keys, false)
	if err != nil {
		return err
	}
	if t.Data+keys == "" {
		return nil
	}
	if !info.Running() {
		return ended(info)
	}
	if application, _ := sequences(t.Keys, true); application != keys {
		a, err := info.Ask(ctx, session.Request{Op: session.OpCount})
		if err != nil {
			return err
		}
		if a.Count.ApplicationKeys {
			keys = application
		}
	}
	input.Data = []byte(t.Data + keys)
	if !s.checks(info) {
		_, err := info.Ask(ctx, input)
		return err
	}
	var consent []string // findings that a person has allowed
	for {
		v, err := s.typeChecked(ctx, info, input, t.confirmation, consent)
		if err == nil || !v.Dangerous {
			return err
		}
		// Ask the person without holding the lock on the state.
		if err := s.consent(ctx, info.Owner, "type into a terminal of this computer", string(input.Data), v, err); err != nil {
			return err
		}
		consent = v.Matches
	}
}

// checks reports whether input to a session is checked.
func (s *Server) checks(info session.Info) bool {
	return s.config.CheckWrites && info.Backend != session.Workspace
}

// typeChecked types input if it is confirmed or needs no confirmation. Otherwise it returns an
// error and the findings.
func (s *Server) typeChecked(ctx context.Context, info session.Info, input session.Request, c confirmation, consent []string) (danger.Verdict, error) {
	none := danger.Verdict{}
	state, err := openTyped(ctx, info)
	if err != nil {
		return none, fault.Wrap(err, "type into session", info.ID)
	}
	defer state.close()
	next, v := s.config.Rules.Type(state.now, state.start, input.Data)
	if v.Dangerous && !slices.Equal(v.Matches, consent) {
		if err := s.redeem(c, confirm.Request{Command: typedCommand(info.ID, string(input.Data)), Owner: info.Owner, Scope: string(info.Scope)}); err != nil {
			return v, err
		}
	}
	if hiding := next.WithoutSince(state.now); hiding != next && oneLine(input.Data) {
		a, err := info.Ask(ctx, session.Request{Op: session.OpCount})
		if err == nil && a.Count.Hidden {
			next = hiding
		}
	}
	return none, state.enter(ctx, info, next, input)
}

// oneLine reports whether a text has exactly one line break, and ends with it.
func oneLine(text []byte) bool { return bytes.IndexAny(text, "\r\n") == len(text)-1 }

func ended(info session.Info) error {
	return fault.New(fault.Precondition, "use session", info.ID, "it has ended")
}

// typedCommand returns the text that a confirmation of typed input is for. It contains the session
// ID, so that it differs between sessions and is not a valid command.
func typedCommand(id, data string) string { return "pty_write " + id + "\n" + data }

// resizeRequest is the request of pty_resize.
type resizeRequest struct {
	target
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// resize is pty_resize.
func (s *Server) resize(ctx context.Context, req resizeRequest, _ func(string)) (mcp.Plain, error) {
	info, err := s.use(req.target, resize)
	switch {
	case err == nil && !info.Running():
		err = ended(info)
	case err == nil:
		_, err = info.Ask(ctx, session.Request{Op: session.OpResize, Cols: req.Cols, Rows: req.Rows, Client: req.ClientID})
	}
	return done, err
}
