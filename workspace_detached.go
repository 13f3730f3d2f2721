package pyro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// CommandState is the state of a command in a workspace's history.
type CommandState string

// The states of commands.
const (
	CommandRunning     CommandState = "running"
	CommandPaused      CommandState = "paused" // it continues when its workspace is resumed
	CommandExited      CommandState = "exited"
	CommandInterrupted CommandState = "interrupted" // its machine or its client ended first; see CommandEntry.Broken
)

// StartCommandRequest describes a command that runs in the background. WorkspaceID is required, and
// either Argv or Command.
type StartCommandRequest struct {
	WorkspaceID string `json:"workspace_id"`

	Argv      []string          `json:"argv,omitempty"`       // the program and its arguments.
	Command   string            `json:"command,omitempty"`    // instead of Argv: a command line for /bin/sh -lc.
	Env       map[string]string `json:"env,omitempty"`        // extra environment variables.
	Cwd       string            `json:"cwd,omitempty"`        // working directory: absolute, or relative to /workspace; default /workspace.
	User      string            `json:"user,omitempty"`       // name or number, optionally with :group; default the environment's user.
	SecretEnv map[string]string `json:"secret_env,omitempty"` // maps secrets of the workspace to the environment variables that get their values

	TimeoutSeconds int `json:"timeout_seconds,omitempty"` // time limit of the command, which is then killed with its children; 0: no limit
}

// WorkspaceCommand is a command of a workspace.
type WorkspaceCommand struct {
	WorkspaceID string `json:"workspace_id"`
	CommandEntry
}

// StartCommand starts a command in the background, and returns when it runs. The command has no
// input. The history contains it like every command, and its number there identifies it:
// CommandEntry.Sequence. Read its output with ReadCommand or FollowCommand.
//
// The command continues after this program has ended. It ends on its own, at its time limit, with
// KillCommand, or with the machine of its workspace. While the workspace is paused, the command is
// paused too. Until the command ends, the workspace counts as used. At most 64 programs in the
// background can run at the same time. The error has kind Exhausted if more would run.
func (p *Pyro) StartCommand(ctx context.Context, req StartCommandRequest) (*WorkspaceCommand, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("workspace_id", req.WorkspaceID); err != nil {
		return nil, err
	}
	argv, err := argvOf(req.Argv, req.Command)
	if err != nil {
		return nil, err
	}
	if req.TimeoutSeconds < 0 || req.TimeoutSeconds > MaxSeconds {
		return nil, invalid("timeout_seconds is %d: it must be 0 to %d", req.TimeoutSeconds, MaxSeconds)
	}
	if err := errors.Join(checkStrings(argv, req.Env), checkUser(req.User), checkSecretEnv(req.SecretEnv, req.Env)); err != nil {
		return nil, err
	}
	c, err := p.workspaces.StartCommand(ctx, req.WorkspaceID, program.Command{
		Argv: argv, User: req.User, Cwd: inWorkspace(req.Cwd), Env: program.Environ(req.Env), Secrets: secretEnv(req.SecretEnv),
		Timeout: time.Duration(req.TimeoutSeconds) * time.Second,
	})
	return commandOf(ctx, req.WorkspaceID, c, err)
}

func commandOf(ctx context.Context, id string, c workspace.Command, err error) (*WorkspaceCommand, error) {
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &WorkspaceCommand{id, entryOf(c)}, nil
}

// WorkspaceCommands are commands of a workspace.
type WorkspaceCommands struct {
	WorkspaceID string         `json:"workspace_id"`
	Count       int            `json:"count"`
	Commands    []CommandEntry `json:"commands"` // oldest first
}

// ListCommands returns the commands of a workspace that have not ended. It does not resume a paused
// workspace.
func (p *Pyro) ListCommands(ctx context.Context, id string) (*WorkspaceCommands, error) {
	logs, err := p.LogsWorkspace(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &WorkspaceCommands{WorkspaceID: logs.WorkspaceID, Commands: []CommandEntry{}}
	for _, e := range logs.Entries {
		if e.State == CommandRunning || e.State == CommandPaused {
			r.Commands = append(r.Commands, e)
		}
	}
	r.Count = len(r.Commands)
	return r, nil
}

// ReadCommandRequest contains the parameters of [Pyro.ReadCommand].
type ReadCommandRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Sequence    int    `json:"sequence"`               // the number of the command in the history
	Cursor      string `json:"cursor,omitempty"`       // NextCursor of the previous read; empty: the beginning.
	MaxChars    int    `json:"max_chars,omitempty"`    // limit for each stream, 1 to MaxReadChars; default DefaultMaxChars.
	WaitSeconds int    `json:"wait_seconds,omitempty"` // wait for new output or the end, but at most this time, at most MaxReadWaitSeconds; 0: do not wait
}

// MaxReadWaitSeconds is the longest time that ReadCommand waits for output.
const MaxReadWaitSeconds = 60

// CommandOutput is output of a command.
type CommandOutput struct {
	WorkspaceID string       `json:"workspace_id"`
	Sequence    int          `json:"sequence"`
	State       CommandState `json:"state"`
	ExitCode    *int         `json:"exit_code"` // nil if it has not ended or if its end was not observed
	TimedOut    bool         `json:"timed_out"`
	OutOfMemory bool         `json:"out_of_memory,omitempty"`
	Broken      string       `json:"broken,omitempty"` // why its end was not observed

	Stdout         string   `json:"stdout"`
	Stderr         string   `json:"stderr"`
	StdoutEncoding Encoding `json:"stdout_encoding"`
	StderrEncoding Encoding `json:"stderr_encoding"`
	NextCursor     string   `json:"next_cursor"`   // cursor for the next read
	Truncated      bool     `json:"truncated"`     // there is more output: read again
	DroppedBytes   int64    `json:"dropped_bytes"` // lost bytes between the requested cursor and the output, of both streams
}

// Output returns the bytes of the two streams as the command wrote them.
func (o *CommandOutput) Output() (stdout, stderr []byte) {
	return o.StdoutEncoding.decode(o.Stdout), o.StderrEncoding.decode(o.Stderr)
}

// ReadCommand reads the output of a command, starting at a cursor. Successive reads return each
// byte once, except dropped bytes. While a machine runs, it keeps the last 1 MiB of each stream of
// its last background programs. The history keeps the first and the last part of each stream: see
// HistoryBytes. Commands of ExecWorkspace have output here only after their end.
//
// If the command has not ended, ReadCommand counts as use of the workspace and resumes a paused
// workspace.
func (p *Pyro) ReadCommand(ctx context.Context, req ReadCommandRequest) (*CommandOutput, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("max_chars", &req.MaxChars, DefaultMaxChars, 1, MaxReadChars); err != nil {
		return nil, err
	}
	if req.WaitSeconds < 0 || req.WaitSeconds > MaxReadWaitSeconds {
		return nil, invalid("wait_seconds is %d: it must be 0 to %d", req.WaitSeconds, MaxReadWaitSeconds)
	}
	read := workspace.CommandRead{Chars: req.MaxChars, Wait: time.Duration(req.WaitSeconds) * time.Second}
	if req.Cursor != "" {
		var rest string
		if n, _ := fmt.Sscanf(req.Cursor, "%d:%d%s", &read.Stdout, &read.Stderr, &rest); n != 2 || read.Stdout < 0 || read.Stderr < 0 {
			return nil, invalid("cursor is %q: it must be next_cursor of a read", fault.Printable(req.Cursor[:min(len(req.Cursor), 80)]))
		}
	}
	c, out, err := p.workspaces.ReadCommand(ctx, req.WorkspaceID, req.Sequence, read)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	e := entryOf(c)
	r := &CommandOutput{
		WorkspaceID: req.WorkspaceID, Sequence: e.Sequence, State: e.State, ExitCode: e.ExitCode, TimedOut: e.TimedOut, OutOfMemory: e.OutOfMemory, Broken: e.Broken,
		NextCursor: fmt.Sprintf("%d:%d", out.Stdout.Next, out.Stderr.Next), Truncated: out.Stdout.More || out.Stderr.More,
		DroppedBytes: out.Stdout.Dropped + out.Stderr.Dropped,
	}
	r.Stdout, r.StdoutEncoding = encode(out.Stdout.Data)
	r.Stderr, r.StderrEncoding = encode(out.Stderr.Data)
	return r, nil
}

// FollowCommandRequest names a command to follow and the writers for its output.
type FollowCommandRequest struct {
	WorkspaceID string
	Sequence    int // the number of the command in the history

	Stdout io.Writer // receives the standard output; nil: discard it
	Stderr io.Writer
	// Dropped is called if bytes are missing because they are no longer stored. The arguments are
	// the number of bytes that are missing before the next write to each stream. Dropped can be
	// nil.
	Dropped func(stdout, stderr int64)
}

// FollowCommand writes the output of a command until the command ends. It returns earlier if the
// workspace is paused or its machine ends. The result says how the command ended. Slow writers do
// not slow the command down. FollowCommand counts as use and resumes a paused workspace, unless the
// command has ended. A command of ExecWorkspace has output here only after its end.
func (p *Pyro) FollowCommand(ctx context.Context, req FollowCommandRequest) (*WorkspaceCommand, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	write := func(to io.Writer, b []byte) (err error) {
		if to != nil && len(b) > 0 {
			_, err = to.Write(b)
		}
		return err
	}
	c, err := p.workspaces.FollowCommand(ctx, req.WorkspaceID, req.Sequence, func(out workspace.CommandOutput) error {
		if out.Stdout.Dropped+out.Stderr.Dropped > 0 && req.Dropped != nil {
			req.Dropped(out.Stdout.Dropped, out.Stderr.Dropped)
		}
		return errors.Join(write(req.Stdout, out.Stdout.Data), write(req.Stderr, out.Stderr.Data))
	})
	return commandOf(ctx, req.WorkspaceID, c, err)
}

// WaitCommandRequest names a command to wait for.
type WaitCommandRequest struct {
	WorkspaceID    string `json:"workspace_id"`
	Sequence       int    `json:"sequence"`                  // the number of the command in the history
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"` // the longest wait; 0: no limit
}

// WaitCommand waits until a command has ended. If the wait reaches its limit, the result has the
// state CommandRunning, and the command continues. WaitCommand resumes a paused workspace and
// counts as use, unless the command has ended.
func (p *Pyro) WaitCommand(ctx context.Context, req WaitCommandRequest) (*WorkspaceCommand, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if req.TimeoutSeconds < 0 || req.TimeoutSeconds > MaxSeconds {
		return nil, invalid("timeout_seconds is %d: it must be 0 to %d", req.TimeoutSeconds, MaxSeconds)
	}
	limited, cancel := ctx, func() {}
	if req.TimeoutSeconds > 0 {
		limited, cancel = context.WithTimeout(ctx, time.Duration(req.TimeoutSeconds)*time.Second)
	}
	defer cancel()
	c, err := p.workspaces.AwaitCommand(limited, req.WorkspaceID, req.Sequence)
	// The supervisor can notice the deadline before this process does.
	if err != nil && req.TimeoutSeconds > 0 && ctx.Err() == nil && (limited.Err() != nil || KindOf(err) == Timeout || errors.Is(err, context.DeadlineExceeded)) {
		c, err = p.workspaces.Command(ctx, req.WorkspaceID, req.Sequence)
	}
	return commandOf(ctx, req.WorkspaceID, c, err)
}

// KillCommandRequest names a command to end.
type KillCommandRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Sequence    int    `json:"sequence"`              // the number of the command in the history
	SignalName  string `json:"signal_name,omitempty"` // one of CommandSignals; default KILL
}

// CommandSignals are the signal names that KillCommand accepts.
var CommandSignals = []string{"KILL", "TERM", "INT", "HUP", "QUIT", "TSTP", "CONT", "USR1", "USR2"}

// KillCommand kills a command with all processes that it started, and returns when it has ended.
// Signals other than KILL go to the command's process group, and KillCommand does not wait.
// KillCommand does nothing if the command has ended. It can also end a command of ExecWorkspace.
func (p *Pyro) KillCommand(ctx context.Context, req KillCommandRequest) (*WorkspaceCommand, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.ToUpper(req.SignalName), "SIG")
	sig := syscall.SIGKILL
	if name != "" {
		if !slices.Contains(CommandSignals, name) {
			return nil, invalid("signal_name is %q: it must be one of %s", fault.Printable(req.SignalName[:min(len(req.SignalName), 80)]), strings.Join(CommandSignals, ", "))
		}
		sig = program.Signals[name]
	}
	c, err := p.workspaces.SignalCommand(ctx, req.WorkspaceID, req.Sequence, sig)
	return commandOf(ctx, req.WorkspaceID, c, err)
}
