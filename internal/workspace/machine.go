package workspace

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Machine is a connection to the machine of a running workspace. The caller must close it.
type Machine struct {
	*client
	Spec store.Spec
}

// Machine connects to the machine of a workspace. It does not resume a paused workspace. The error
// has kind Precondition if the workspace does not run.
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

// Run runs a command until it ends, and adds it to the history.
func (m *Machine) Run(ctx context.Context, c program.Command, to program.Attach) (Exit, error) {
	return runBounded(ctx, m.client, inEnvironment(m.Spec, c), to)
}

// Open starts a program that outlives its caller. If the command has no terminal, the program runs
// in the background, without input. The error has kind Exists if a running program has the tag.
func (m *Machine) Open(ctx context.Context, tag string, c program.Command) (Shell, error) {
	return m.OpenTagged(ctx, tag, inEnvironment(m.Spec, c), false)
}

// AwaitEnd waits until the machine of a workspace has ended with its supervisor. It does not poll,
// and does not count as use. If the machine does not run, AwaitEnd returns immediately.
func (m *Manager) AwaitEnd(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	// A stream of the supervisor ends with it. The locks in the folder could be watched from the
	// beginning, but that needs an inotify instance for each machine, and users have few.
	if c, err := remote.Watch(ctx, m.folder(id)); err == nil {
		c.FollowHistory(ctx, func() error { return nil })
		c.Close()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.folder(id).AwaitEnd(ctx)
}

// WatchFolders watches folders of a running machine, see remote.Client.WatchFolders. It does not
// count as use, and does not resume a paused workspace. Precondition: the workspace does not run.
func (m *Manager) WatchFolders(ctx context.Context, id string, paths []string, changed func(folders uint64) error) error {
	if err := checkID(id); err != nil {
		return err
	}
	c, err := remote.Watch(ctx, m.folder(id))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.WatchFolders(ctx, paths, changed)
}

// Running reports whether a workspace runs. It does not read the workspace's record.
func (m *Manager) Running(id string) bool { return checkID(id) == nil && m.folder(id).Running() }
