package pyro

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// ExecWorkspaceRequest says what to run in a workspace. Only WorkspaceID and one of Argv and Command have to be set.
type ExecWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`

	Argv    []string          `json:"argv,omitempty"`    // the program and its arguments, as they are
	Command string            `json:"command,omitempty"` // or a line for the guest's /bin/sh -lc
	Env     map[string]string `json:"env,omitempty"`     // added to that of the environment
	Cwd     string            `json:"cwd,omitempty"`     // absolute, or relative to /workspace, which is the default

	SecretEnv map[string]string `json:"secret_env,omitempty"` // secrets of the workspace, and the environment variables that they are in

	TimeoutSeconds int `json:"timeout_seconds,omitempty"` // of the command, which is killed with all it started; default DefaultTimeoutSeconds

	// As for RunInVM.
	Stdin   io.Reader             `json:"-"`
	Stdout  io.Writer             `json:"-"`
	Stderr  io.Writer             `json:"-"`
	TTY     *TTY                  `json:"-"`
	Signals <-chan syscall.Signal `json:"-"`
}

// WorkspaceExecResult is what became of a command.
type WorkspaceExecResult struct {
	WorkspaceID   string        `json:"workspace_id,omitempty"`
	Sequence      int           `json:"sequence"` // in the history; 0 if it is not there
	Cwd           string        `json:"cwd"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	Isolation     Isolation     `json:"isolation"`

	ExitCode    int    `json:"exit_code"` // as for RunInVM
	Signal      int    `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out"`
	NotRun      string `json:"not_run,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	OutputHeld  bool   `json:"output_held,omitempty"`

	// HistoryError says why the history does not have the command, or not its end. The command ran all the same.
	HistoryError string `json:"history_error,omitempty"`

	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutEncoding  Encoding `json:"stdout_encoding"`
	StderrEncoding  Encoding `json:"stderr_encoding"`
	StdoutTruncated bool     `json:"stdout_truncated,omitempty"`
	StderrTruncated bool     `json:"stderr_truncated,omitempty"`

	DurationMS float64 `json:"duration_ms"`
}

// Output gives the bytes of the two streams as the command wrote them.
func (r *WorkspaceExecResult) Output() (stdout, stderr []byte) {
	return r.StdoutEncoding.decode(r.Stdout), r.StderrEncoding.decode(r.Stderr)
}

// ExecWorkspace runs a command in a workspace that runs, and keeps it in the history. A command that fails is a result and no error. When ctx ends, or this
// program, the command is killed with all it started. Any number may run at once.
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
	if req.Argv, err = program(req.Argv, req.Command); err != nil {
		return nil, err
	}
	if err := completeNumber("timeout_seconds", &req.TimeoutSeconds, DefaultTimeoutSeconds, 1, MaxSeconds); err != nil {
		return nil, err
	}
	if err := checkStrings(req.Argv, req.Env); err != nil {
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
	var stdout, stderr capture
	out, errs := sink{to: or(req.Stdout, &stdout)}, sink{to: or(req.Stderr, &stderr)}
	exit, spec, err := p.workspaces.Exec(ctx, kind, req.WorkspaceID, req.workspaceCommand(ctx, &out, &errs, passSignals(ctx, cancel, req.Signals)))
	for _, s := range []*sink{&out, &errs} {
		if s.err != nil {
			return nil, fault.Wrap(s.err, "pass on the output", "")
		}
	}
	if err != nil {
		return nil, because(ctx, err)
	}
	r := &WorkspaceExecResult{WorkspaceID: req.WorkspaceID, Cwd: inWorkspace(req.Cwd), Isolation: Isolation(spec.Isolation), Sequence: exit.Sequence}
	r.ExecutionMode, _, _ = modeOf(spec)
	r.HistoryError = exit.HistoryError
	r.ended(exit)
	r.Stdout, r.StdoutEncoding = stdout.text()
	r.Stderr, r.StderrEncoding = stderr.text()
	r.StdoutTruncated, r.StderrTruncated = stdout.truncated, stderr.truncated
	if req.Stderr == nil {
		r.tellTimeout(req.TimeoutSeconds)
	}
	return r, nil
}

// tellTimeout has the output say which time limit ended the command.
func (r *WorkspaceExecResult) tellTimeout(seconds int) {
	if r.TimedOut && r.StderrEncoding == UTF8 {
		r.Stderr += fmt.Sprintf("the command timed out after %d s\n", seconds)
	}
}

// inWorkspace gives the absolute path of a folder that commands run in.
func inWorkspace(cwd string) string {
	if strings.HasPrefix(cwd, "/") {
		return path.Clean(cwd)
	}
	return path.Join(WorkspacePath, cwd)
}

// environmentOf gives variables as NAME=VALUE, sorted.
func environmentOf(env map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// workspaceCommand is what the workspace is asked to run.
func (req *ExecWorkspaceRequest) workspaceCommand(ctx context.Context, out, errs io.Writer, signals *signalPasser) workspace.Command {
	c := workspace.Command{
		Argv: req.Argv, Cwd: inWorkspace(req.Cwd), Env: environmentOf(req.Env), Timeout: time.Duration(req.TimeoutSeconds) * time.Second, Stdin: req.Stdin, Stdout: out, Stderr: errs,
		Secrets: secretEnv(req.SecretEnv),
	}
	if t := req.TTY; t != nil {
		c.TTY = &client.Terminal{Cols: t.Size.Cols, Rows: t.Size.Rows, Term: t.Term}
	}
	c.Attach = func(r workspace.Running) {
		signals.started(func(sig syscall.Signal) {
			untilStarted(ctx, func() error { return r.Signal(ctx, sig) })
		})
		if req.TTY != nil {
			go followSize(ctx, req.TTY.Resize, r.Resize)
		}
	}
	return c
}

// ended notes how the command ended.
func (r *WorkspaceExecResult) ended(e remote.Exit) {
	r.ExitCode, r.Signal, r.TimedOut, r.NotRun = e.Code, e.Signal, e.TimedOut, e.Message
	r.OutOfMemory, r.OutputHeld, r.DurationMS = e.OutOfMemory, e.OutputHeld, ms(e.Duration)
	if e.TimedOut {
		r.ExitCode = fault.ExitTimeout
	}
}

// WorkspaceLogs is the history of a workspace.
type WorkspaceLogs struct {
	WorkspaceID string         `json:"workspace_id"`
	Count       int            `json:"count"`
	Entries     []CommandEntry `json:"entries"` // the oldest first
}

// CommandEntry is one command of a history.
type CommandEntry struct {
	Sequence  int        `json:"sequence"` // from 1 on; it begins anew with a reset
	Argv      []string   `json:"argv"`
	Cwd       string     `json:"cwd"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"` // null: it runs, or its machine ended before it did

	ExitCode    *int    `json:"exit_code"` // null where nobody saw its end
	Signal      int     `json:"signal,omitempty"`
	TimedOut    bool    `json:"timed_out"`
	NotRun      string  `json:"not_run,omitempty"`
	Broken      string  `json:"broken,omitempty"` // why nobody saw its end
	OutOfMemory bool    `json:"out_of_memory,omitempty"`
	DurationMS  float64 `json:"duration_ms"`

	// The output. Of a stream with more than HistoryBytes the first and the last part is kept, with a line between that says how much is not.
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutEncoding  Encoding `json:"stdout_encoding"`
	StderrEncoding  Encoding `json:"stderr_encoding"`
	StdoutBytes     int64    `json:"stdout_bytes"` // that the command wrote
	StderrBytes     int64    `json:"stderr_bytes"`
	StdoutTruncated bool     `json:"stdout_truncated,omitempty"`
	StderrTruncated bool     `json:"stderr_truncated,omitempty"`
}

// HistoryBytes is how much of each stream of a command a history keeps. Of all commands of a workspace together it keeps some 16 MiB: where there is more, the
// oldest are left without their output, and say so.
const HistoryBytes = store.OutputBytes

// LogsWorkspace gives the commands that were run in a workspace since it was created or last reset.
func (p *Pyro) LogsWorkspace(ctx context.Context, id string) (*WorkspaceLogs, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	found, err := p.workspaces.History(ctx, id)
	if err != nil {
		return nil, because(ctx, err)
	}
	logs := &WorkspaceLogs{WorkspaceID: id, Count: len(found), Entries: make([]CommandEntry, 0, len(found))}
	for _, c := range found {
		logs.Entries = append(logs.Entries, entryOf(c))
	}
	return logs, nil
}

func entryOf(c store.Command) CommandEntry {
	e := CommandEntry{
		Sequence: c.Sequence, Argv: c.Argv, Cwd: c.Cwd, StartedAt: c.StartedAt, EndedAt: moment(c.EndedAt),
		Signal: c.Result.Signal, TimedOut: c.Result.TimedOut, NotRun: c.Result.NotRun, Broken: c.Result.Broken, OutOfMemory: c.Result.OutOfMemory,
		ExitCode: exitCode(c), DurationMS: ms(time.Duration(c.Result.DurationNS)), StdoutBytes: c.Result.StdoutBytes, StderrBytes: c.Result.StderrBytes,
		StdoutTruncated: truncated(c.Stdout, c.Result.StdoutBytes), StderrTruncated: truncated(c.Stderr, c.Result.StderrBytes),
	}
	e.Stdout, e.StdoutEncoding = encode(c.Stdout)
	e.Stderr, e.StderrEncoding = encode(c.Stderr)
	return e
}

// exitCode is that of a command of a history: nil where nobody saw its end.
func exitCode(c store.Command) *int {
	if c.EndedAt.IsZero() || c.Result.Broken != "" {
		return nil
	}
	code := c.Result.ExitCode
	if c.Result.TimedOut {
		code = fault.ExitTimeout
	}
	return &code
}

// truncated tells whether less of a stream is kept than was written.
func truncated(kept []byte, written int64) bool {
	return written > HistoryBytes || written > int64(len(kept))
}

// encode gives bytes as a JSON string can carry them.
func encode(b []byte) (string, Encoding) {
	if utf8.Valid(b) {
		return string(b), UTF8
	}
	return base64.StdEncoding.EncodeToString(b), Base64
}
