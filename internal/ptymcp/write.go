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

// typing is what is to be typed, and how it was confirmed where it needs to be.
type typing struct {
	Data string   `json:"data"`
	Keys []string `json:"keys"` // after Data
	confirmation
}

// writeRequest is that of pty_write.
type writeRequest struct {
	target
	typing
}

// done is the result of tools that have nothing to tell.
const done = mcp.Plain("ok")

// write is pty_write: all of it is typed, or nothing.
func (s *Server) write(ctx context.Context, req writeRequest, _ func(string)) (mcp.Plain, error) {
	info, err := s.use(req.target, write)
	if err != nil {
		return "", err
	}
	if req.Data == "" && len(req.Keys) == 0 {
		return "", fault.Newf(fault.Invalid, "data is required, or keys")
	}
	return done, s.typeIn(ctx, info, req.ClientID, req.typing)
}

// typeIn types, after a look at what would be entered by it.
func (s *Server) typeIn(ctx context.Context, info session.Info, client string, t typing) error {
	input := session.Request{Op: session.OpInput, Client: client}
	keys, err := sequences(t.Keys)
	if err != nil {
		return err
	}
	data := []byte(t.Data + keys)
	input.Data = data
	if len(data) == 0 {
		return nil
	}
	if !info.Running() {
		return ended(info)
	}
	if !s.checks(info) {
		_, err := info.Ask(ctx, input)
		return err
	}
	var consent []string // what a person has agreed to
	for {
		v, err := s.typeChecked(ctx, info, input, t.confirmation, consent)
		if err == nil || !v.Dangerous {
			return err
		}
		// Nobody else need wait for a person.
		if err := s.consent(ctx, info.Owner, "type into a terminal of this computer", string(data), v, err); err != nil {
			return err
		}
		consent = v.Matches
	}
}

// checks tells whether what is typed into a session is looked at first.
func (s *Server) checks(info session.Info) bool {
	return s.config.CheckWrites && info.Backend != session.Workspace
}

// typeChecked types what needs no confirmation or has one. Where it needs one, the error says so, and the verdict why.
func (s *Server) typeChecked(ctx context.Context, info session.Info, input session.Request, c confirmation, consent []string) (danger.Verdict, error) {
	none := danger.Verdict{}
	state, err := openTyped(ctx, info)
	if err != nil {
		return none, fault.Wrap(err, "type into session", info.ID)
	}
	defer state.close()
	next, v := s.config.Rules.Type(state.now, state.place, input.Data)
	if v.Dangerous && !slices.Equal(v.Matches, consent) {
		if err := s.redeem(c, confirm.Request{Command: typedCommand(info.ID, string(input.Data)), Owner: info.Owner, Scope: string(info.Scope)}); err != nil {
			return v, err
		}
	}
	if hiding := next.Hiding(state.now); hiding != next && oneLine(input.Data) {
		a, err := info.Ask(ctx, session.Request{Op: session.OpCount})
		if err == nil && a.Count.Hidden {
			next = hiding
		}
	}
	return none, state.enter(ctx, info, next, input)
}

// oneLine tells whether a text is the end of one line, and no more.
func oneLine(text []byte) bool { return bytes.IndexAny(text, "\r\n") == len(text)-1 }

func ended(info session.Info) error {
	return fault.New(fault.Precondition, "use session", info.ID, "it has ended")
}

// typedCommand is what a confirmation of something typed is bound to: it is no command that could be spawned, and of no other session.
func typedCommand(id, data string) string { return "pty_write " + id + "\n" + data }

// resizeRequest is that of pty_resize.
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
