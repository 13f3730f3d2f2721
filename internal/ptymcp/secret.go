package ptymcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// secretRequest is the request of pty_send_secret. No argument contains the secret itself.
type secretRequest struct {
	target
	File      string `json:"file"`
	Variable  string `json:"variable"`
	Person    bool   `json:"person"`
	Why       string `json:"why"`
	Enter     *bool  `json:"enter"`
	Shown     bool   `json:"shown"`
	TimeoutMS *int64 `json:"timeout_ms"`
}

// sendSecret is pty_send_secret. It types a secret that the model does not see. The secret is
// redacted in the output.
func (s *Server) sendSecret(ctx context.Context, req secretRequest, _ func(string)) (mcp.Plain, error) {
	info, err := s.use(req.target, sendSecret)
	if err != nil {
		return "", err
	}
	if !info.Running() {
		return "", ended(info)
	}
	given := 0
	for _, is := range []bool{req.File != "", req.Variable != "", req.Person} {
		if is {
			given++
		}
	}
	if given != 1 {
		return "", fault.Newf(fault.Invalid, "give one of file, variable and person")
	}
	if req.Person {
		return done, askSecret(ctx, info, req.Why)
	}
	value, from, err := s.secretOf(req, info.Backend)
	if err != nil {
		return "", fault.Wrap(err, "use secret", "")
	}
	if err := session.CheckSecret(value); err != nil {
		return "", err
	}
	ask := session.Request{
		Op: session.OpSecret, Secret: value.Reveal(), Shown: req.Shown, NoEnter: req.Enter != nil && !*req.Enter, From: from, Client: req.ClientID,
		Timeout: s.patience(req.TimeoutMS, defaultPatience),
	}
	if !s.checks(info) {
		_, err = info.Ask(ctx, ask)
		return done, err
	}
	return done, s.typeSecret(ctx, info, ask)
}

// typeSecret types a secret, unless the secret is a dangerous command. A secret that is typed
// without echo is probably a password. So it is rejected only if it breaks a rule, not if it is
// only unclear.
func (s *Server) typeSecret(ctx context.Context, info session.Info, ask session.Request) error {
	state, err := openTyped(ctx, info)
	if err != nil {
		return fault.Wrap(err, "type into session", info.ID)
	}
	defer state.close()
	typed := func(text string) (danger.Typed, danger.Verdict) {
		if !ask.NoEnter {
			text += "\r"
		}
		return s.config.Rules.Type(state.now, state.start, []byte(text))
	}
	_, v := typed(ask.Secret)
	alone := s.config.Rules.Check(ask.Secret, state.start)
	if v.Harmful || alone.Harmful || ask.Shown && v.Dangerous {
		return fault.New(fault.Permission, "type into session", info.ID, "the secret is a dangerous command; nothing was typed").
			WithHint("pty_send_secret is for passwords and the like")
	}
	if !ask.Shown { // others can type while this waits for a prompt
		state.close()
		_, err := info.Ask(ctx, ask)
		return err
	}
	// Record a text of the same length instead of the secret.
	next, _ := typed(strings.Repeat("x", len(ask.Secret)))
	return state.enter(ctx, info, next, ask)
}

// secretOf reads a secret from its source. It also returns the name of the source, for the log.
func (s *Server) secretOf(req secretRequest, b session.Backend) (v secret.Value, from string, err error) {
	subject := req.Variable
	if req.File != "" {
		if subject, err = filepath.Abs(expanded(req.File)); err == nil {
			subject, err = filepath.EvalSymlinks(subject)
		}
		if err != nil {
			return v, "", err
		}
	}
	switch {
	case slices.Contains(s.config.Secrets, subject):
	case len(s.config.Secrets) > 0:
		return v, "", fault.Newf(fault.Permission, "%.200q is not in PTY_MCP_SECRETS", subject)
	case b == session.Workspace: // programs in a workspace can't read this computer's files, and this tool must not change that
		return v, "", fault.Newf(fault.Permission, "the user must name the secrets for workspaces").WithHint("PTY_MCP_SECRETS=%s for the server, or person", subject)
	}
	if req.File != "" {
		v, err = readSecret(subject)
		return v, "file " + subject, err
	}
	text, set := os.LookupEnv(subject)
	if !set {
		return v, "", fault.Newf(fault.NotFound, "the server has no environment variable %.80q", subject)
	}
	return secret.New(text), "variable " + subject, nil
}

// readSecret reads a secret from a file, without the line break at the end.
func readSecret(path string) (v secret.Value, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return v, errors.Join(err, fault.Newf(fault.Invalid, "%.200q is not a file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, session.MaxSecret+2))
	return secret.New(strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")), err
}

// askSecret asks a person to type a secret in a terminal, because MCP forbids asking for secrets in
// a client. It returns immediately if the person has typed one since the last call.
func askSecret(ctx context.Context, info session.Info, why string) error {
	how := "pyro pty send-secret " + info.ID
	if typed, err := info.Folder.ConsumeTyped(); typed || err != nil {
		return fault.Wrap(err, "ask for secret", info.ID)
	}
	question := fmt.Sprintf("The agent %q asks for a secret, to be typed into a terminal of this computer that runs:\n\n%s\n", info.Owner, shown(info.Command))
	if why != "" {
		question += fmt.Sprintf("\nIt says: %s\n", shown(why))
	}
	question += "\nThe agent does not see it. Run this in a terminal of yours:\n\n" + how + "\n\nand agree here when that is done."
	answer, err := mcp.AskPerson(ctx, question)
	if err != nil {
		return err
	}
	typed, err := info.Folder.ConsumeTyped()
	switch {
	case typed || err != nil:
		return fault.Wrap(err, "ask for secret", info.ID)
	case answer == mcp.NotAsked:
		return fault.New(fault.Unsupported, "ask for secret", info.ID, "this client can't ask a person").WithHint("ask the person to run %s, then call this again", how)
	case answer == mcp.No:
		return errDeclined
	}
	return fault.New(fault.Precondition, "ask for secret", info.ID, "the person agreed, but typed nothing").WithHint("ask them to run %s, then call this again", how)
}
