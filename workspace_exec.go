package pyro

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// ExecWorkspaceRequest describes a command for a workspace. WorkspaceID is required, and either
// Argv or Command.
type ExecWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`

	Argv    []string          `json:"argv,omitempty"`    // the program and its arguments.
	Command string            `json:"command,omitempty"` // instead of Argv: a command line for /bin/sh -lc.
	Env     map[string]string `json:"env,omitempty"`     // extra environment variables.
	Cwd     string            `json:"cwd,omitempty"`     // working directory: absolute, or relative to /workspace; default /workspace
	User    string            `json:"user,omitempty"`    // name or number, optionally with :group; default the environment's user

	SecretEnv map[string]string `json:"secret_env,omitempty"` // maps secrets of the workspace to the environment variables that get their values

	TimeoutSeconds int `json:"timeout_seconds,omitempty"` // time limit of the command, which is then killed with its children; default DefaultTimeoutSeconds

	Unlimited bool `json:"-"` // if TimeoutSeconds is 0: the command has no time limit

	// The following fields work as in RunInVMRequest.
	Stdin      io.Reader             `json:"-"`
	Stdout     io.Writer             `json:"-"`
	Stderr     io.Writer             `json:"-"`
	StreamOnly bool                  `json:"-"`
	TTY        *TTY                  `json:"-"`
	Signals    <-chan syscall.Signal `json:"-"`
}

// WorkspaceExecResult is the outcome of a command.
type WorkspaceExecResult struct {
	WorkspaceID   string        `json:"workspace_id,omitempty"`
	Sequence      int           `json:"sequence"` // the command's number in the history, or 0 if the history does not contain it
	Cwd           string        `json:"cwd"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	Isolation     Isolation     `json:"isolation"`

	CommandResult

	// HistoryError is the reason why the history does not contain the command or its outcome. The
	// command ran nevertheless.
	HistoryError     string `json:"history_error,omitempty"`
	HistoryErrorKind Kind   `json:"-"` // kind of HistoryError; empty if unknown
}

// ExecWorkspace runs a command in a running workspace and adds the command to the history. A
// command that fails is a result, not an error. When ctx or this program ends, the command is
// killed with all processes that it started. Any number of commands can run at the same time.
func (p *Pyro) ExecWorkspace(ctx context.Context, req ExecWorkspaceRequest) (*WorkspaceExecResult, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("workspace_id", req.WorkspaceID); err != nil {
		return nil, err
	}
	return p.exec(ctx, store.KindWorkspace, req)
}

func (p *Pyro) exec(ctx context.Context, kind store.Kind, req ExecWorkspaceRequest) (*WorkspaceExecResult, error) {
	var err error
	if req.Argv, err = argvOf(req.Argv, req.Command); err != nil {
		return nil, err
	}
	if !req.Unlimited || req.TimeoutSeconds != 0 {
		if err := completeNumber("timeout_seconds", &req.TimeoutSeconds, DefaultTimeoutSeconds, 1, MaxSeconds); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(checkStrings(req.Argv, req.Env), checkUser(req.User)); err != nil {
		return nil, err
	}
	if err := checkSecretEnv(req.SecretEnv, req.Env); err != nil {
		return nil, err
	}
	if t := req.TTY; t != nil && !t.Size.valid() {
		return nil, invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", t.Size.Cols, t.Size.Rows)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout, stderr := newOutput(req.Stdout, req.StreamOnly), newOutput(req.Stderr, req.StreamOnly)
	signals := forwardSignals(ctx, cancel, req.Signals)
	to := program.Attach{Stdin: req.Stdin, Stdout: stdout, Stderr: stderr, Started: attached(ctx, signals, req.TTY)}
	exit, spec, err := p.workspaces.Exec(ctx, kind, req.WorkspaceID, req.program(), to, signals.starting)
	if err := writeError(stdout, stderr); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r := &WorkspaceExecResult{WorkspaceID: req.WorkspaceID, Cwd: inWorkspace(req.Cwd), Isolation: Isolation(spec.Isolation), Sequence: exit.Sequence}
	r.ExecutionMode, _, _ = modeOf(spec)
	r.HistoryError, r.HistoryErrorKind = exit.HistoryError, exit.HistoryErrorKind
	r.ended(exit.Exit)
	r.printed(stdout, stderr)
	r.refused(exit.RefusedCount, exit.Refused)
	if r.TimedOut && r.StderrEncoding == UTF8 {
		r.Stderr += fmt.Sprintf("the command timed out after %d s\n", req.TimeoutSeconds)
	}
	return r, nil
}

// inWorkspace returns the absolute path of a working directory in the workspace.
func inWorkspace(cwd string) string {
	if strings.HasPrefix(cwd, "/") {
		return path.Clean(cwd)
	}
	return path.Join(WorkspacePath, cwd)
}

// program returns the command for the workspace.
func (req *ExecWorkspaceRequest) program() program.Command {
	return program.Command{
		Argv: req.Argv, User: req.User, Cwd: inWorkspace(req.Cwd), Env: program.Environ(req.Env), Secrets: secretEnv(req.SecretEnv),
		Timeout: time.Duration(req.TimeoutSeconds) * time.Second, TTY: req.TTY.terminal(),
	}
}

// WorkspaceLogs is the history of a workspace.
type WorkspaceLogs struct {
	WorkspaceID string         `json:"workspace_id"`
	Count       int            `json:"count"`
	Entries     []CommandEntry `json:"entries"` // oldest first
}

// CommandEntry is a command in a workspace's history.
type CommandEntry struct {
	Sequence  int          `json:"sequence"` // starts at 1, and again at 1 after a reset
	State     CommandState `json:"state"`
	Argv      []string     `json:"argv"`
	Cwd       string       `json:"cwd"`
	StartedAt time.Time    `json:"started_at"`
	EndedAt   *time.Time   `json:"ended_at"` // nil if it still runs or if its machine ended before it

	ExitCode    *int    `json:"exit_code"` // nil if it has not ended or if its end was not observed
	Signal      int     `json:"signal,omitempty"`
	TimedOut    bool    `json:"timed_out"`
	NotRun      string  `json:"not_run,omitempty"`
	Broken      string  `json:"broken,omitempty"` // why its end was not observed
	OutOfMemory bool    `json:"out_of_memory,omitempty"`
	DurationMS  float64 `json:"duration_ms"`

	// Stdout and Stderr are the output. If a stream exceeds HistoryBytes, only its first and last
	// parts are stored, with a line between them that says how much is missing.
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutEncoding  Encoding `json:"stdout_encoding"`
	StderrEncoding  Encoding `json:"stderr_encoding"`
	StdoutBytes     int64    `json:"stdout_bytes"` // bytes that the command wrote
	StderrBytes     int64    `json:"stderr_bytes"`
	StdoutTruncated bool     `json:"stdout_truncated,omitempty"`
	StderrTruncated bool     `json:"stderr_truncated,omitempty"`
}

// HistoryBytes is the maximum number of bytes that the history stores per output stream of a
// command. In total, the history of a workspace stores about 16 MiB of output. Beyond this size, a
// note replaces the output of the oldest commands.
const HistoryBytes = store.OutputBytes

// LogsWorkspace returns the commands that ran in a workspace since its creation or last reset.
func (p *Pyro) LogsWorkspace(ctx context.Context, id string) (*WorkspaceLogs, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	found, err := p.workspaces.History(ctx, id)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	logs := &WorkspaceLogs{WorkspaceID: id, Count: len(found), Entries: make([]CommandEntry, 0, len(found))}
	for _, c := range found {
		logs.Entries = append(logs.Entries, entryOf(c))
	}
	return logs, nil
}

func entryOf(c workspace.Command) CommandEntry {
	e := CommandEntry{
		Sequence: c.Sequence, State: CommandState(c.State), Argv: c.Argv, Cwd: c.Cwd, StartedAt: c.StartedAt, EndedAt: moment(c.EndedAt),
		Signal: c.Result.Signal, TimedOut: c.Result.TimedOut, NotRun: c.Result.NotRun, Broken: c.Result.Broken, OutOfMemory: c.Result.OutOfMemory,
		ExitCode: exitCode(c.Command), DurationMS: ms(c.Result.Duration), StdoutBytes: c.Result.StdoutBytes, StderrBytes: c.Result.StderrBytes,
		StdoutTruncated: truncated(c.Stdout, c.Result.StdoutBytes), StderrTruncated: truncated(c.Stderr, c.Result.StderrBytes),
	}
	e.Stdout, e.StdoutEncoding = encode(c.Stdout)
	e.Stderr, e.StderrEncoding = encode(c.Stderr)
	return e
}

// exitCode returns a command's exit code, or nil if the command's end was not observed.
func exitCode(c store.Command) *int {
	if c.EndedAt.IsZero() || c.Result.Broken != "" {
		return nil
	}
	code := c.Result.Code
	if c.Result.TimedOut {
		code = fault.ExitTimeout
	}
	return &code
}

// truncated reports whether a part of a stream is not stored.
func truncated(kept []byte, written int64) bool {
	return written > HistoryBytes || written > int64(len(kept))
}

// encode returns bytes as text for a JSON string, with the encoding.
func encode(b []byte) (string, Encoding) {
	if utf8.Valid(b) {
		return string(b), UTF8
	}
	return base64.StdEncoding.EncodeToString(b), Base64
}
