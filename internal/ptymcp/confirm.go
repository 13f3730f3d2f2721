package ptymcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// confirmation contains the arguments that confirm a dangerous command.
type confirmation struct {
	Token         string `json:"dangerous_confirm_token"`
	Confirmed     bool   `json:"dangerous_confirmed"`     // only in legacy mode
	Justification string `json:"dangerous_justification"` // only in legacy mode
}

// redeem uses up the confirmation of a command. It returns an error if there is no valid
// confirmation.
func (s *Server) redeem(c confirmation, r confirm.Request) error {
	switch {
	case strings.TrimSpace(c.Token) != "":
		return s.tokens.Redeem(c.Token, r)
	case s.config.LegacyConfirm && (c.Confirmed || strings.TrimSpace(c.Justification) != ""):
		return nil
	case s.config.LegacyConfirm:
		return fault.Newf(fault.Permission, "dangerous command detected; use confirm_dangerous_command").WithHint("or give dangerous_confirmed and dangerous_justification")
	}
	return errUnconfirmed
}

var errUnconfirmed = fault.Newf(fault.Permission, "dangerous command detected; confirmation token required").
	WithHint("call confirm_dangerous_command with this command, cwd, env, owner and scope, and a justification; pass its confirm_token as dangerous_confirm_token")

// consent asks a person whether to allow a command that has no valid confirmation. If the client
// can't ask, consent returns the error unconfirmed.
func (s *Server) consent(ctx context.Context, owner, what, command string, v danger.Verdict, unconfirmed error) error {
	if unconfirmed != error(errUnconfirmed) {
		return withFindings(unconfirmed, v)
	}
	answer, err := askPerson(ctx, owner, what, command, "", v)
	switch {
	case err != nil:
		return err
	case answer == mcp.Yes:
		return nil
	case answer == mcp.No:
		return errDeclined
	}
	return withFindings(unconfirmed, v)
}

var errDeclined = fault.Newf(fault.Permission, "the person did not agree")

// withFindings adds the findings of a verdict to an error.
func withFindings(err error, v danger.Verdict) error {
	return &fault.Error{Kind: fault.KindOf(err), Err: fmt.Errorf("%w (%s)", err, strings.Join(v.Matches, "; ")), Hint: fault.HintOf(err)}
}

// maxShown is the maximum number of bytes of a command that a person is shown.
const maxShown = 4 << 10

// askPerson asks a person to allow a dangerous command.
func askPerson(ctx context.Context, owner, what, command, why string, v danger.Verdict) (mcp.Answer, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "The agent %q wants to %s:\n\n%s\n\nThis may do harm:\n", owner, what, shown(command))
	for _, m := range v.Matches {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	if why != "" {
		fmt.Fprintf(&b, "\nIt says: %s\n", shown(why))
	}
	b.WriteString("\nShall it?")
	return mcp.AskPerson(ctx, b.String())
}

// shown makes text from an agent safe to show to a person.
func shown(text string) string {
	text = fault.Printable(text)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes more)", len(text)-maxShown)
	}
	return text
}

// confirmRequest is the request of confirm_dangerous_command.
type confirmRequest struct {
	Command       string            `json:"command"`
	Justification string            `json:"justification"`
	Owner         string            `json:"owner"`
	Scope         string            `json:"scope"`
	SessionID     string            `json:"session_id"`
	Cwd           string            `json:"cwd"`
	Env           map[string]string `json:"env"`
}

// confirmResult is the result of confirm_dangerous_command.
type confirmResult struct {
	OK        bool     `json:"ok"`
	Dangerous bool     `json:"dangerous"`
	Matches   []string `json:"matches"`
	Token     string   `json:"confirm_token,omitempty"`
	ExpiresAt float64  `json:"expires_at,omitempty"` // seconds since 1970
	Error     string   `json:"error,omitempty"`
}

// confirm is confirm_dangerous_command. It confirms a command to spawn or text to type.
func (s *Server) confirm(ctx context.Context, req confirmRequest, _ func(string)) (*confirmResult, error) {
	if strings.TrimSpace(req.Command) == "" && req.SessionID == "" {
		return nil, fault.Newf(fault.Invalid, "command is required")
	}
	v, elsewhere := s.checkCommand(req)
	what := "run on this computer"
	r := confirm.Request{Command: req.Command, Owner: req.Owner, Scope: req.Scope, Justification: req.Justification}
	if req.SessionID != "" {
		info, err := s.use(target{SessionID: req.SessionID, Owner: req.Owner}, observes("confirm_dangerous_command"))
		if err != nil {
			return nil, err
		}
		if v, err = s.checkInput(ctx, info, req.Command); err != nil {
			return nil, err
		}
		elsewhere = danger.Verdict{}
		r.Command, r.Owner, r.Scope, what = typedCommand(info.ID, req.Command), info.Owner, string(info.Scope), "type into a terminal of this computer"
	}
	result := &confirmResult{OK: true, Dangerous: v.Dangerous, Matches: v.Matches}
	if !v.Dangerous {
		result.Matches = []string{}
		// The contract's request has no cwd, so the token must also be valid for other folders.
		if v = elsewhere; !v.Dangerous {
			return result, nil
		}
	}
	refuse := func(why string) (*confirmResult, error) {
		result.OK, result.Error = false, why
		return result, nil
	}
	if strings.TrimSpace(req.Justification) == "" {
		return nil, fault.New(fault.Invalid, "confirm a dangerous command", "", "justification is required").
			WithHint("call it again with a justification: why the command must run")
	}
	switch answer, err := askPerson(ctx, req.Owner, what, req.Command, req.Justification, v); {
	case err != nil:
		return nil, err
	case answer == mcp.No:
		return refuse(errDeclined.Error())
	}
	token, expires, err := s.tokens.Issue(r)
	result.Token, result.ExpiresAt = token, epoch(expires)
	return result, err
}

// checkCommand returns the findings in a command, in the folder that pty_spawn would choose. If the
// request has no folder, elsewhere contains the findings for the folder /.
func (s *Server) checkCommand(req confirmRequest) (here, elsewhere danger.Verdict) {
	_, defaultCwd := s.currentLimits()
	at := danger.Start{Cwd: req.Cwd, Env: req.Env}
	if folder, err := workingFolder(req.Cwd, defaultCwd, req.Command); err == nil {
		at.Cwd = folder
	}
	here = s.config.Rules.Check(req.Command, at)
	if req.Cwd == "" && strings.TrimSpace(req.Justification) != "" {
		at.Cwd = "/"
		elsewhere = s.config.Rules.Check(req.Command, at)
	}
	return here, elsewhere
}

// checkInput returns the findings in text that would be typed into a session now. The text is
// checked with Enter at its end.
func (s *Server) checkInput(ctx context.Context, info session.Info, data string) (danger.Verdict, error) {
	state, err := openTyped(ctx, info)
	if err != nil {
		return danger.Verdict{}, fault.Wrap(err, "use session", info.ID)
	}
	defer state.close()
	if !strings.HasSuffix(data, "\n") && !strings.HasSuffix(data, "\r") {
		data += "\r"
	}
	_, v := s.config.Rules.Type(state.now, state.start, []byte(data))
	return v, nil
}
