package workspace

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Pause writes down the machine of a workspace that runs, with all that runs in it, and ends it: it takes no memory any more. What is done next with it has it go on. It
// is no error where it is paused. With an error it runs as before.
func (m *Manager) Pause(ctx context.Context, kind store.Kind, id string) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	if _, err := m.record(ctx, kind, id); err != nil {
		return Workspace{}, err
	}
	c, err := remote.Dial(ctx, m.folder(id))
	if fault.KindOf(err) == fault.Precondition {
		if w, failed := m.record(ctx, kind, id); failed != nil || w.Disks.Memory != "" { // its supervisor may have ended just now
			return m.now(ctx, w), failed
		}
	}
	if err != nil {
		return Workspace{}, fault.Wrap(err, "pause "+string(kind), id)
	}
	defer c.Close()
	if err := c.Pause(ctx, pausedReason); err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, kind, id)
}

// pausedReason is why one is paused that somebody has paused.
const pausedReason = "it was paused"

// rootInMemory tells whether a workspace whose lock is held is paused, and what it changed of its root is nowhere but in its memory.
func (m *Manager) rootInMemory(ctx context.Context, id string) (bool, error) {
	w, err := m.Store.Workspace(ctx, id)
	if err != nil || w.Disks.Memory == "" || m.folder(id).Running() {
		return false, err
	}
	features, err := m.features(w.Spec)
	return !features.BlockDisks, err
}

// Resume has a workspace go on that is paused. It is no error where it runs. Precondition: it is stopped. Corrupt: what it was saved as is damaged; it stays as it is.
func (m *Manager) Resume(ctx context.Context, kind store.Kind, id string, report progress.Func) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	if _, err := m.record(ctx, kind, id); err != nil {
		return Workspace{}, err
	}
	runs, err := m.runs(ctx, id) // and what seems to may be about to end, as whoever had it go on has died
	if err == nil && !runs {
		err = m.goOn(ctx, kind, id, report)
	}
	if err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, kind, id)
}

// goOn starts a workspace whose lock is held, and that has no supervisor, where it is paused.
func (m *Manager) goOn(ctx context.Context, kind store.Kind, id string, report progress.Func) error {
	w, err := m.Get(ctx, kind, id)
	if err != nil {
		return err
	}
	if w.State != Paused {
		return fault.New(fault.Precondition, "resume "+string(kind), id, "it is %s, not paused", w.State).WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", id))
	}
	return m.start(ctx, id, report)
}

// rootLost is told of one whose memory can't be gone on with, where what it changed of its root is in that alone.
const rootLost = ", and could not go on: it has its /workspace, and of all else what there was when it was last stopped"

// forget has a workspace whose lock is held, and that is paused, be stopped: what ran in it is lost. What it changed of its root may be in its memory alone, and is taken
// from there where the machine can go on.
func (m *Manager) forget(ctx context.Context, id string) error {
	w, err := m.Store.Workspace(ctx, id)
	if err != nil || w.Disks.Memory == "" {
		return err
	}
	reason := "it was stopped while it was paused"
	needed, err := m.rootInMemory(ctx, id)
	if err != nil {
		return err
	}
	if needed {
		err := m.start(ctx, id, nil)
		if err == nil {
			return m.stop(ctx, id, "it was stopped", false)
		}
		if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Precondition {
			return err
		}
		reason += rootLost
	}
	w.Disks.Memory = ""
	if err := m.Store.SetDisks(ctx, id, w.Disks); err != nil {
		return err
	}
	if err := m.folder(id).WriteEnd(remote.End{Reason: reason}); err != nil {
		return err
	}
	return m.sweepDisks(context.WithoutCancel(ctx), id)
}
