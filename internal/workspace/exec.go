package workspace

import (
	"cmp"
	"context"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Command is what to run in a workspace.
type Command struct {
	Argv    []string
	Env     []string // NAME=VALUE, over that of the environment
	Cwd     string   // empty: /workspace
	Timeout time.Duration
	Secrets []remote.SecretEnv
	TTY     *client.Terminal
	Stdin   io.Reader // nil: it is at its end from the start
	Stdout  io.Writer // nil: dropped
	Stderr  io.Writer

	// Attach is called before the command starts, with what it can be told while it runs. It may be nil.
	Attach func(Running)
}

// in is the command as a workspace's supervisor is told it.
func (c Command) in(spec store.Spec) client.Command {
	return client.Command{
		Argv: c.Argv, Env: append(slices.Clone(spec.Env), c.Env...), User: spec.User, Cwd: cmp.Or(c.Cwd, Path), TTY: c.TTY, Timeout: c.Timeout,
	}
}

// Running is a command that is about to run, or runs.
type Running struct {
	client *remote.Client
	id     string
}

// Signal sends a signal to its process group. NotFound where it does not run yet, or no more.
func (r Running) Signal(ctx context.Context, sig syscall.Signal) error {
	return r.client.Signal(ctx, r.id, sig)
}

// Resize sets the size of its terminal.
func (r Running) Resize(ctx context.Context, cols, rows int) error {
	return r.client.Resize(ctx, r.id, cols, rows)
}

// Path is where a workspace's files are, seen from its commands.
const Path = "/workspace"

// timeoutGrace is what the agent has, over the command's time limit, to kill the command and say so.
const timeoutGrace = 5 * time.Second

var errNotEnded = fault.Newf(fault.Timeout, "the command could not be ended in time")

// Exec runs a command in a workspace that runs, to its end, and keeps it in the history. When ctx ends, or this process dies, it is killed with all that it
// started. It gives the workspace's spec, too, which who tells of the command needs.
func (m *Manager) Exec(ctx context.Context, kind store.Kind, id string, c Command) (remote.Exit, store.Spec, error) {
	connection, w, err := m.connect(ctx, kind, id)
	if err != nil {
		return remote.Exit{}, store.Spec{}, err
	}
	defer connection.Close()
	command := c.in(w.Spec)
	command.ID = client.NewID()
	if c.Attach != nil {
		c.Attach(Running{connection, command.ID})
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout+timeoutGrace, errNotEnded)
		defer cancel()
	}
	exit, err := connection.Exec(ctx, command, c.Stdin, c.Stdout, c.Stderr, c.Secrets...)
	return exit, w.Spec, err
}
