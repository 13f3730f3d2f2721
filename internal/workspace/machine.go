package workspace

import (
	"context"
	"io"
	"slices"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Machine is a connection to the machine of a workspace that runs, for who works on the whole of it. Close it.
type Machine struct {
	*remote.Client
	Spec store.Spec
}

// Machine connects to the machine of a workspace. Precondition: it does not run. One that is paused stays so.
func (m *Manager) Machine(ctx context.Context, kind store.Kind, id string) (*Machine, error) {
	w, err := m.record(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	c, err := remote.Dial(ctx, m.folder(id))
	if err != nil {
		return nil, err
	}
	return &Machine{c, w.Spec}, nil
}

// Run runs a command to its end as it is told, in the environment's variables and as the environment's user where it names none, and keeps it in the history.
func (m *Machine) Run(ctx context.Context, c client.Command, stdout, stderr io.Writer) (remote.Exit, error) {
	c = m.in(c)
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout+timeoutGrace, errNotEnded)
		defer cancel()
	}
	return m.Exec(ctx, c, nil, stdout, stderr)
}

// Open starts a program likewise, on a terminal or where the command has none in the background, that goes on by itself. Exists: one that runs has the tag.
func (m *Machine) Open(ctx context.Context, tag string, c client.Command) (remote.Shell, error) {
	return m.OpenTagged(ctx, tag, m.in(c))
}

// in gives a command what its environment says of all.
func (m *Machine) in(c client.Command) client.Command {
	c.Env = append(slices.Clone(m.Spec.Env), c.Env...)
	if c.User == "" {
		c.User = m.Spec.User
	}
	return c
}

// Running tells whether a workspace runs, without a look into its record.
func (m *Manager) Running(id string) bool { return checkID(id) == nil && m.folder(id).Running() }
