package pyro

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/terminal"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// The defaults and bounds of shells.
const (
	DefaultShellCols = 120
	DefaultShellRows = 30

	DefaultMaxChars  = 65536   // of what is read at once where a request says nothing
	MaxReadChars     = 1 << 20 // of what can be read at once
	MaxWaitForIdleMS = 10_000
)

// ShellState says whether a shell's program runs.
type ShellState string

// The states.
const (
	ShellRunning ShellState = "running"
	ShellStopped ShellState = "stopped" // its program has ended; what it printed can be read until it is closed
)

// Shell is a program on a terminal of its own in a workspace. It goes on when pyro ends, until it is closed, its program ends, or the workspace is stopped, reset or
// deleted.
type Shell struct {
	WorkspaceID   string        `json:"workspace_id"`
	ShellID       string        `json:"shell_id"`
	State         ShellState    `json:"state"`
	Cwd           string        `json:"cwd"` // in which it was opened
	Cols          int           `json:"cols"`
	Rows          int           `json:"rows"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	OpenedAt      time.Time     `json:"opened_at"`
	EndedAt       *time.Time    `json:"ended_at"`         // null while it runs
	ExitCode      *int          `json:"exit_code"`        // null while it runs, or where nobody saw its end
	Broken        string        `json:"broken,omitempty"` // why nobody did
	OutputBytes   int64         `json:"output_bytes"`     // that it has printed: the cursor of its end
}

func newShell(id string, spec store.Spec, s remote.Shell) Shell {
	r := Shell{
		WorkspaceID: id, ShellID: s.ID, State: ShellRunning, Cwd: s.Cwd, Cols: s.Cols, Rows: s.Rows, OpenedAt: s.OpenedAt, EndedAt: moment(s.EndedAt),
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

// OpenShellRequest says what shell to open. Only WorkspaceID has to be set.
type OpenShellRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Cwd         string            `json:"cwd,omitempty"`  // absolute, or relative to /workspace, which is the default
	Cols        int               `json:"cols,omitempty"` // 1 to 1000; default DefaultShellCols
	Rows        int               `json:"rows,omitempty"` // 1 to 1000; default DefaultShellRows
	Env         map[string]string `json:"env,omitempty"`
	SecretEnv   map[string]string `json:"secret_env,omitempty"` // secrets of the workspace, and the environment variables that they are in
}

// OpenShell opens a shell in a workspace that runs: bash where the environment has it, else sh. See ExecWorkspace for a single command, whose end and exit code are
// known; a shell is for what goes on between commands: a working directory, variables, programs that ask questions.
func (p *Pyro) OpenShell(ctx context.Context, req OpenShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("cols", &req.Cols, DefaultShellCols, 1, terminal.MaxSide); err != nil {
		return nil, err
	}
	if err := completeNumber("rows", &req.Rows, DefaultShellRows, 1, terminal.MaxSide); err != nil {
		return nil, err
	}
	if err := checkEnv(req.Env); err != nil {
		return nil, err
	}
	if err := checkSecretEnv(req.SecretEnv, req.Env); err != nil {
		return nil, err
	}
	open := workspace.Command{
		Cwd: inWorkspace(req.Cwd), Env: environmentOf(req.Env), TTY: &client.Terminal{Cols: req.Cols, Rows: req.Rows}, Secrets: secretEnv(req.SecretEnv),
	}
	return p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (remote.Shell, error) { return s.Open(ctx, open) })
}

// onShell does something with a shell of a workspace, and gives what it is then.
func (p *Pyro) onShell(ctx context.Context, id string, do func(*workspace.Shells) (remote.Shell, error)) (*Shell, error) {
	shells, err := p.workspaces.Shells(ctx, id)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer shells.Close()
	s, err := do(shells)
	if err != nil {
		return nil, because(ctx, err)
	}
	r := newShell(id, shells.Spec, s)
	return &r, nil
}

// WorkspaceShells are those of a workspace.
type WorkspaceShells struct {
	WorkspaceID string  `json:"workspace_id"`
	Count       int     `json:"count"`
	Shells      []Shell `json:"shells"` // the oldest first
}

// ListShells gives the shells of a workspace that runs that were not closed.
func (p *Pyro) ListShells(ctx context.Context, id string) (*WorkspaceShells, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	shells, err := p.workspaces.Shells(ctx, id)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer shells.Close()
	all, err := shells.Client.Shells(ctx)
	if err != nil {
		return nil, because(ctx, err)
	}
	r := &WorkspaceShells{WorkspaceID: id, Count: len(all), Shells: []Shell{}}
	for _, s := range all {
		r.Shells = append(r.Shells, newShell(id, shells.Spec, s))
	}
	return r, nil
}

// ReadShellRequest says what to read of a shell.
type ReadShellRequest struct {
	WorkspaceID   string `json:"workspace_id"`
	ShellID       string `json:"shell_id"`
	Cursor        int64  `json:"cursor,omitempty"`           // next_cursor of the read before; 0: from the beginning
	MaxChars      int    `json:"max_chars,omitempty"`        // 1 to MaxReadChars; default DefaultMaxChars
	Plain         bool   `json:"plain,omitempty"`            // the text that a person would see, instead of all that was printed
	WaitForIdleMS int    `json:"wait_for_idle_ms,omitempty"` // read when nothing was printed for so long since the shell answered, up to MaxWaitForIdleMS; 0: at once
}

// ShellOutput is what was read of a shell.
type ShellOutput struct {
	Shell
	Cursor        int64  `json:"cursor"`      // where the output begins
	NextCursor    int64  `json:"next_cursor"` // to go on with
	Output        string `json:"output"`
	Truncated     bool   `json:"truncated"`     // there was more than max_chars: read on
	DroppedBytes  int64  `json:"dropped_bytes"` // that were printed after the cursor that was asked for, and are not kept any more
	Plain         bool   `json:"plain"`
	WaitForIdleMS int    `json:"wait_for_idle_ms,omitempty"`
}

// ReadShell reads what a shell has printed from a cursor on. Nothing is lost or seen twice between reads, but for what is dropped: of each shell the last 4 MiB are
// kept. No character is split. A program that shows a whole screen, such as an editor, is plain as that screen.
//
// WaitForIdleMS counts from output on: a shell that was just opened, or typed into, is not idle before it has printed something. That is waited for up to 15 seconds
// from opening and 5 seconds from input, so a program that prints nothing delays a read, but does not block it.
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
	var out remote.ShellOutput
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (_ remote.Shell, err error) {
		out, err = s.ReadShell(ctx, remote.ShellRead{
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

// WriteShellRequest says what to type into a shell.
type WriteShellRequest struct {
	WorkspaceID   string `json:"workspace_id"`
	ShellID       string `json:"shell_id"`
	Input         string `json:"input"`
	AppendNewline *bool  `json:"append_newline,omitempty"` // default true
}

// ShellInput tells what was typed.
type ShellInput struct {
	Shell
	InputLength   int  `json:"input_length"` // bytes, with the newline
	AppendNewline bool `json:"append_newline"`
}

// MaxShellInput is how much can be typed into a shell that its program has not read yet, in bytes.
const MaxShellInput = 1 << 20

// WriteShell types into a shell. It does not wait for what comes of it: see ReadShell.
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
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (remote.Shell, error) { return s.WriteShell(ctx, req.ShellID, typed) })
	if err != nil {
		return nil, err
	}
	return &ShellInput{*shell, len(typed), newline}, nil
}

// SignalShellRequest says what signal to send.
type SignalShellRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ShellID     string `json:"shell_id"`
	SignalName  string `json:"signal_name,omitempty"` // one of ShellSignals; default INT
}

// ShellSignals are the signals that can be sent to what runs in a shell.
var ShellSignals = []string{"INT", "TERM", "HUP", "QUIT", "KILL", "TSTP", "CONT"}

var signalNumbers = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TSTP": syscall.SIGTSTP, "CONT": syscall.SIGCONT,
}

// ShellSignal tells what signal was sent.
type ShellSignal struct {
	Shell
	SignalName string `json:"signal_name"`
}

// SignalShell sends a signal to what runs in the foreground of a shell, as its keys would. It waits for the shell's first prompt and until what was typed before was
// read, for a few seconds at most; KILL and HUP do not wait.
func (p *Pyro) SignalShell(ctx context.Context, req SignalShellRequest) (*ShellSignal, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.ToUpper(req.SignalName), "SIG")
	if name == "" {
		name = "INT"
	}
	number, ok := signalNumbers[name]
	if !ok {
		return nil, invalid("signal_name is %q: it must be one of %s", req.SignalName, strings.Join(ShellSignals, ", "))
	}
	shell, err := p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (remote.Shell, error) { return s.SignalShell(ctx, req.ShellID, number) })
	if err != nil {
		return nil, err
	}
	return &ShellSignal{*shell, name}, nil
}

// ResizeShellRequest says what size a shell's terminal is to have.
type ResizeShellRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ShellID     string `json:"shell_id"`
	Cols        int    `json:"cols"` // 1 to 1000
	Rows        int    `json:"rows"` // 1 to 1000
}

// ResizeShell sets the size of a shell's terminal. What runs in it is told.
func (p *Pyro) ResizeShell(ctx context.Context, req ResizeShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if !(WindowSize{req.Cols, req.Rows}).valid() {
		return nil, invalid("a terminal of %d x %d characters: it must be 1 to 1000 each", req.Cols, req.Rows)
	}
	return p.onShell(ctx, req.WorkspaceID, func(s *workspace.Shells) (remote.Shell, error) {
		return s.ResizeShell(ctx, req.ShellID, req.Cols, req.Rows)
	})
}

// ClosedShell is a shell that was closed, as it was at its end.
type ClosedShell struct {
	Shell
	Closed bool `json:"closed"`
}

// CloseShell ends a shell with all that runs in it, and forgets it. What it printed can't be read any more.
func (p *Pyro) CloseShell(ctx context.Context, id, shell string) (*ClosedShell, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, err := p.onShell(ctx, id, func(s *workspace.Shells) (remote.Shell, error) { return s.CloseShell(ctx, shell) })
	if err != nil {
		return nil, err
	}
	return &ClosedShell{*s, true}, nil
}
