package pyro

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Defaults and limits for shells.
const (
	DefaultShellCols = 120
	DefaultShellRows = 30

	DefaultMaxChars  = 65536   // the default for one read
	MaxReadChars     = 1 << 20 // the maximum for one read
	MaxWaitForIdleMS = 10_000
)

// ShellState is the state of a shell's program.
type ShellState string

// The states of shells.
const (
	ShellRunning ShellState = "running"
	ShellStopped ShellState = "stopped" // its program has ended; its output can be read until the shell is closed
)

// Shell is a program on a terminal in a workspace. It keeps running after the caller that opened it
// has exited. It ends when it is closed, when its program ends, or when the workspace is stopped,
// reset or deleted.
type Shell struct {
	WorkspaceID   string        `json:"workspace_id"`
	ShellID       string        `json:"shell_id"`
	Tag           string        `json:"tag,omitempty"` // the name that "pyro serve" or pty-mcp gave the shell, or empty
	State         ShellState    `json:"state"`
	Cwd           string        `json:"cwd"` // initial working directory
	Cols          int           `json:"cols"`
	Rows          int           `json:"rows"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	OpenedAt      time.Time     `json:"opened_at"`
	EndedAt       *time.Time    `json:"ended_at"`         // nil if it runs.
	ExitCode      *int          `json:"exit_code"`        // nil if it runs or if its end was not observed.
	Broken        string        `json:"broken,omitempty"` // why its end was not observed.
	OutputBytes   int64         `json:"output_bytes"`     // bytes printed so far, which is the cursor of the end
}

func newShell(id string, spec store.Spec, s workspace.Shell) Shell {
	r := Shell{
		WorkspaceID: id, ShellID: s.ID, Tag: s.Tag, State: ShellRunning, Cwd: s.Cwd, Cols: s.Cols, Rows: s.Rows, OpenedAt: s.OpenedAt, EndedAt: moment(s.EndedAt),
		Broken: s.Broken, OutputBytes: s.OutputBytes,
	}
	r.ExecutionMode, _, _ = modeOf(spec)
	if !s.EndedAt.IsZero() {
		r.State = ShellStopped
	}
	if s.Exit != nil {
		r.ExitCode = &s.Exit.Code
	}
	return r
}

// OpenShellRequest describes a new shell. Only WorkspaceID is required.
type OpenShellRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Cwd         string            `json:"cwd,omitempty"`  // working directory: absolute, or relative to /workspace; default /workspace.
	Cols        int               `json:"cols,omitempty"` // 1 to 1000; default DefaultShellCols.
	Rows        int               `json:"rows,omitempty"` // 1 to 1000; default DefaultShellRows.
	User        string            `json:"user,omitempty"` // name or number, optionally with :group; default the environment's user.
	Env         map[string]string `json:"env,omitempty"`
	SecretEnv   map[string]string `json:"secret_env,omitempty"` // maps secrets of the workspace to the environment variables that get their values
}

// OpenShell starts a shell in a running workspace: bash if the environment contains it, else sh.
// Use a shell if commands share state, such as a working directory, or if programs ask questions.
// For single commands, use ExecWorkspace, which returns the exit code.
func (p *Pyro) OpenShell(ctx context.Context, req OpenShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("cols", &req.Cols, DefaultShellCols, 1, program.MaxSide); err != nil {
		return nil, err
	}
	if err := completeNumber("rows", &req.Rows, DefaultShellRows, 1, program.MaxSide); err != nil {
		return nil, err
	}
	if err := errors.Join(checkEnv(req.Env), checkUser(req.User)); err != nil {
		return nil, err
	}
	if err := checkSecretEnv(req.SecretEnv, req.Env); err != nil {
		return nil, err
	}
	open := program.Command{
		User: req.User, Cwd: inWorkspace(req.Cwd), Env: program.Environ(req.Env), TTY: &program.Terminal{Cols: req.Cols, Rows: req.Rows}, Secrets: secretEnv(req.SecretEnv),
	}
	return p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (workspace.Shell, error) { return s.Open(ctx, open) })
}

// onShell calls the function do with a connection to the shells of a workspace, and returns the
// shell that do returned.
func (p *Pyro) onShell(ctx context.Context, id string, do func(*workspace.Shells) (workspace.Shell, error)) (*Shell, error) {
	shells, err := p.workspaces.Shells(ctx, id)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer shells.Close()
	s, err := do(shells)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r := newShell(id, shells.Spec, s)
	return &r, nil
}

// WorkspaceShells are the shells of a workspace.
type WorkspaceShells struct {
	WorkspaceID string  `json:"workspace_id"`
	Count       int     `json:"count"`
	Shells      []Shell `json:"shells"` // oldest first
}

// ListShells returns the shells of a running workspace. The list does not include closed shells.
func (p *Pyro) ListShells(ctx context.Context, id string) (*WorkspaceShells, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	shells, err := p.workspaces.Shells(ctx, id)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer shells.Close()
	all, err := shells.Shells(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r := &WorkspaceShells{WorkspaceID: id, Count: len(all), Shells: []Shell{}}
	for _, s := range all {
		r.Shells = append(r.Shells, newShell(id, shells.Spec, s))
	}
	return r, nil
}

// ReadShellRequest contains the parameters of [Pyro.ReadShell].
type ReadShellRequest struct {
	WorkspaceID   string `json:"workspace_id"`
	ShellID       string `json:"shell_id"`
	Cursor        int64  `json:"cursor,omitempty"`           // NextCursor of the previous read; 0: the beginning.
	MaxChars      int    `json:"max_chars,omitempty"`        // 1 to MaxReadChars; default DefaultMaxChars.
	Plain         bool   `json:"plain,omitempty"`            // return the text as it looks on the screen, instead of the raw output.
	WaitForIdleMS int    `json:"wait_for_idle_ms,omitempty"` // wait until the shell has answered, and then has printed nothing for this time, at most MaxWaitForIdleMS; 0: do not wait
}

// ShellOutput is output of a shell.
type ShellOutput struct {
	Shell
	Cursor        int64  `json:"cursor"`      // offset of the output
	NextCursor    int64  `json:"next_cursor"` // offset for the next read
	Output        string `json:"output"`
	Truncated     bool   `json:"truncated"`     // there is more output: read again
	DroppedBytes  int64  `json:"dropped_bytes"` // lost bytes between the requested cursor and the output
	Plain         bool   `json:"plain"`
	WaitForIdleMS int    `json:"wait_for_idle_ms,omitempty"`
}

// ReadShell reads the output of a shell, starting at a cursor. Successive reads return each byte
// once, except dropped bytes: only the last 4 MiB of a shell's output are stored. ReadShell does
// not split characters. For a full-screen program, such as an editor, the plain text is the content
// of the screen.
//
// With WaitForIdleMS, ReadShell first waits until the shell has printed something since it was
// opened or last got input. This wait ends at the latest 15 seconds after the opening and 5 seconds
// after input. A program that prints nothing therefore only delays ReadShell.
func (p *Pyro) ReadShell(ctx context.Context, req ReadShellRequest) (*ShellOutput, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("max_chars", &req.MaxChars, DefaultMaxChars, 1, MaxReadChars); err != nil {
		return nil, err
	}
	if req.WaitForIdleMS < 0 || req.WaitForIdleMS > MaxWaitForIdleMS {
		return nil, invalid("wait_for_idle_ms is %d: it must be 0 to %d", req.WaitForIdleMS, MaxWaitForIdleMS)
	}
	if req.Cursor < 0 {
		return nil, invalid("cursor is %d: it must be 0 or next_cursor of a read", req.Cursor)
	}
	var out workspace.ShellOutput
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (_ workspace.Shell, err error) {
		out, err = s.ReadShell(ctx, workspace.ShellRead{
			ID: req.ShellID, Cursor: req.Cursor, Chars: req.MaxChars, Idle: time.Duration(req.WaitForIdleMS) * time.Millisecond, Plain: req.Plain,
		})
		return out.Shell, err
	})
	if err != nil {
		return nil, err
	}
	r := &ShellOutput{
		Shell: *shell, Cursor: out.From, NextCursor: out.Next, Output: text(string(out.Data)), Truncated: out.More, DroppedBytes: out.Dropped,
		Plain: req.Plain, WaitForIdleMS: req.WaitForIdleMS,
	}
	if req.Plain {
		r.Output = text(string(out.Plain))
	}
	return r, nil
}

// WriteShellRequest contains input for a shell.
type WriteShellRequest struct {
	WorkspaceID   string `json:"workspace_id"`
	ShellID       string `json:"shell_id"`
	Input         string `json:"input"`
	AppendNewline *bool  `json:"append_newline,omitempty"` // default true
}

// ShellInput describes input that a shell accepted.
type ShellInput struct {
	Shell
	InputLength   int  `json:"input_length"` // bytes, including the newline
	AppendNewline bool `json:"append_newline"`
}

// MaxShellInput is the maximum size of a shell's unread input, in bytes.
const MaxShellInput = 1 << 20

// WriteShell sends input to a shell. It does not wait for output: use ReadShell. If the program
// reads whole lines, its terminal accepts lines of at most 4,095 bytes. WriteShell refuses input
// with a longer line.
func (p *Pyro) WriteShell(ctx context.Context, req WriteShellRequest) (*ShellInput, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	newline := req.AppendNewline == nil || *req.AppendNewline
	typed := []byte(req.Input)
	if newline {
		typed = append(typed, '\n')
	}
	if len(typed) > MaxShellInput {
		return nil, invalid("the input has %d bytes, more than %d", len(typed), MaxShellInput)
	}
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (workspace.Shell, error) { return s.WriteShell(ctx, req.ShellID, typed) })
	if err != nil {
		return nil, err
	}
	return &ShellInput{*shell, len(typed), newline}, nil
}

// SignalShellRequest names a signal for a shell.
type SignalShellRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ShellID     string `json:"shell_id"`
	SignalName  string `json:"signal_name,omitempty"` // one of ShellSignals; default INT
}

// ShellSignals are the signal names that SignalShell accepts.
var ShellSignals = []string{"INT", "TERM", "HUP", "QUIT", "KILL", "TSTP", "CONT"}

// ShellSignal names the signal that was sent.
type ShellSignal struct {
	Shell
	SignalName string `json:"signal_name"`
}

// SignalShell sends a signal to the foreground programs of a shell. SignalShell first waits until
// the shell has printed its prompt and read earlier input, but at most a few seconds. It sends KILL
// and HUP immediately.
func (p *Pyro) SignalShell(ctx context.Context, req SignalShellRequest) (*ShellSignal, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.ToUpper(req.SignalName), "SIG")
	if name == "" {
		name = "INT"
	}
	if !slices.Contains(ShellSignals, name) {
		return nil, invalid("signal_name is %q: it must be one of %s", req.SignalName, strings.Join(ShellSignals, ", "))
	}
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (workspace.Shell, error) {
		return s.SignalShell(ctx, req.ShellID, program.Signals[name])
	})
	if err != nil {
		return nil, err
	}
	return &ShellSignal{*shell, name}, nil
}

// ResizeShellRequest contains a new size for a shell's terminal.
type ResizeShellRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ShellID     string `json:"shell_id"`
	Cols        int    `json:"cols"` // 1 to 1000
	Rows        int    `json:"rows"` // 1 to 1000
}

// ResizeShell sets the size of a shell's terminal and notifies the shell's programs.
func (p *Pyro) ResizeShell(ctx context.Context, req ResizeShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if !(WindowSize{req.Cols, req.Rows}).valid() {
		return nil, invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", req.Cols, req.Rows)
	}
	return p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (workspace.Shell, error) {
		return s.ResizeShell(ctx, req.ShellID, req.Cols, req.Rows)
	})
}

// ClosedShell is the last state of a shell that was closed.
type ClosedShell struct {
	Shell
	Closed bool `json:"closed"`
}

// CloseShell ends a shell and its programs, and deletes the shell's output.
func (p *Pyro) CloseShell(ctx context.Context, id, shell string) (*ClosedShell, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, err := p.onShell(ctx, id, func(s *workspace.Shells) (workspace.Shell, error) { return s.CloseShell(ctx, shell) })
	if err != nil {
		return nil, err
	}
	return &ClosedShell{*s, true}, nil
}
