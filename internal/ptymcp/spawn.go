package ptymcp

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// spawnRequest is the request of pty_spawn. For a field that is nil, the limits contain the
// default.
type spawnRequest struct {
	Command       string            `json:"command"`
	Cwd           string            `json:"cwd"`
	Cols          *int              `json:"cols"`
	Rows          *int              `json:"rows"`
	Separate      bool              `json:"separate_streams"`
	Tag           string            `json:"tag"`
	Owner         string            `json:"owner"`
	Name          string            `json:"name"`
	Scope         session.Scope     `json:"scope"`
	OutputBytes   *int64            `json:"max_output_bytes"`
	SpawnSec      *int64            `json:"spawn_timeout_sec"`
	OutputRate    *int64            `json:"rate_limit_bps"`
	InputRate     *int64            `json:"input_rate_bps"`
	ReadMS        *int64            `json:"read_timeout_ms"`
	Env           map[string]string `json:"env"`
	Backend       session.Backend   `json:"backend"`
	TmuxWorkspace string            `json:"tmux_workspace"`
	WorkspaceID   string            `json:"workspace_id"`
	confirmation
}

func (r spawnRequest) as() string { return r.Owner }

// The default size of a terminal.
const (
	defaultCols = 120
	defaultRows = 30
)

// backends are the supported backends.
var backends = map[session.Backend]bool{session.Subprocess: true, session.Tmux: true, session.Workspace: true}

// spawn is pty_spawn.
func (s *Server) spawn(ctx context.Context, req spawnRequest, _ func(string)) (any, error) {
	if err := s.requireOwner(req.Owner, "spawn"); err != nil {
		return nil, err
	}
	spec, err := s.spec(req)
	if err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil {
		return nil, fault.Wrap(err, "spawn session", req.Name)
	}
	if err := s.confirmed(ctx, spec, req.confirmation); err != nil {
		return nil, err
	}
	info, err := s.sessions.Spawn(ctx, spec, s.config.MaxSessions)
	if err != nil {
		return nil, err
	}
	if s.config.SpawnMeta {
		return s.describe(ctx, info)
	}
	return mcp.Plain(info.ID), nil
}

// confirmed returns an error if the command is dangerous and not confirmed. Commands in workspaces
// need no confirmation.
func (s *Server) confirmed(ctx context.Context, spec session.Spec, c confirmation) error {
	if spec.Backend == session.Workspace {
		return nil
	}
	v := s.config.Rules.Check(spec.Command, danger.Start{Cwd: spec.Cwd, Env: spec.Env})
	if !v.Dangerous {
		return nil
	}
	err := s.redeem(c, confirm.Request{Command: spec.Command, Owner: spec.Owner, Scope: string(spec.Scope)})
	if err != nil {
		err = s.consent(ctx, spec.Owner, "run on this computer", spec.Command, v, err)
	}
	return err
}

// spec returns the spec of the session that a request describes. It fills in the defaults.
func (s *Server) spec(req spawnRequest) (session.Spec, error) {
	limits, defaultCwd := s.currentLimits()
	backend := cmp.Or(req.Backend, session.Backend(s.config.Backend))
	cwd := cmp.Or(req.Cwd, "/workspace") // a path in the machine
	if backend != session.Workspace {
		var err error
		if cwd, err = workingFolder(req.Cwd, defaultCwd, req.Command); err != nil {
			return session.Spec{}, err
		}
	}
	now := time.Now()
	spec := session.Spec{
		ID: session.NewID(now, os.Getpid()), Name: req.Name, Owner: req.Owner, Tag: req.Tag, Scope: cmp.Or(req.Scope, session.ReadWrite),
		Command: req.Command, Cwd: cwd, Env: req.Env, Cols: or(req.Cols, defaultCols), Rows: or(req.Rows, defaultRows), Separate: req.Separate,
		Backend: backend, TmuxWorkspace: req.TmuxWorkspace, WorkspaceID: req.WorkspaceID,
		OutputBytes: or(req.OutputBytes, limits.OutputBytes), RuntimeLimit: time.Duration(or(req.SpawnSec, limits.SpawnSec)) * time.Second,
		OutputRate: or(req.OutputRate, limits.OutputRate), InputRate: or(req.InputRate, limits.InputRate),
		ReadTimeout: time.Duration(or(req.ReadMS, limits.ReadMS)) * time.Millisecond, IdleTimeout: time.Duration(limits.IdleSec) * time.Second,
		LogFolder: s.config.LogFolder, CreatedAt: now.UTC(),
	}
	switch {
	case !backends[spec.Backend]:
		return spec, fault.Newf(fault.Unsupported, "unsupported backend: %.40s", spec.Backend)
	case spec.Backend == session.Tmux && spec.Separate:
		return spec, fault.Newf(fault.Unsupported, "separate_streams=true is not supported for tmux sessions")
	case (spec.Backend == session.Workspace) != (spec.WorkspaceID != ""):
		return spec, fault.Newf(fault.Invalid, "backend=\"workspace\" and workspace_id go together").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	case spec.Backend != session.Tmux && spec.TmuxWorkspace != "":
		return spec, fault.Newf(fault.Invalid, "tmux_workspace is for backend=\"tmux\"")
	}
	return spec, nil
}

func or[T any](given *T, byDefault T) T {
	if given == nil {
		return byDefault
	}
	return *given
}

// workingFolder returns the working folder of a command. It returns the first of these that is
// given:
//   - the requested folder
//   - the default folder
//   - the program's folder, if the command starts with an absolute path
//   - the server's folder
func workingFolder(asked, byDefault, command string) (string, error) {
	if asked = cmp.Or(asked, byDefault); asked != "" {
		return realFolder(asked)
	}
	if program := firstWord(command); filepath.IsAbs(program) {
		if path, err := filepath.EvalSymlinks(program); err == nil {
			info, err := os.Stat(path)
			switch {
			case err == nil && info.IsDir():
				return path, nil
			case err == nil && info.Mode().IsRegular():
				return filepath.Dir(path), nil
			}
		}
	}
	here, err := os.Getwd()
	if err != nil { // the server's folder was deleted
		here = "/"
	}
	return here, nil
}

// maxPath is the maximum length of a working folder's path, in bytes.
const maxPath = 4096

// realFolder returns the absolute path of a folder, with symbolic links resolved.
func realFolder(name string) (string, error) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", fault.New(fault.Invalid, "use cwd", "", "it must be a path of at most %d bytes", maxPath)
	}
	path, err := filepath.Abs(expanded(name))
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", fault.Wrap(err, "use cwd", fault.Printable(name[:min(len(name), 200)]))
	case err != nil: // such as a cycle of links, or a name that is too long
		return "", fault.New(fault.Invalid, "use cwd", fault.Printable(name[:min(len(name), 200)]), "it is not a folder")
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", fault.New(fault.Invalid, "use cwd", path, "it is not a folder")
	}
	return path, nil
}

// firstWord returns the first word of a command, without its quotes.
func firstWord(command string) string {
	command = strings.TrimSpace(command)
	if command == "" {
		return ""
	}
	if q := command[0]; q == '"' || q == '\'' {
		word, _, _ := strings.Cut(command[1:], string(q))
		return word
	}
	return strings.Fields(command)[0]
}
