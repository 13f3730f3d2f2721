package workspace

import (
	"context"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Pause saves the machine of a running workspace with its programs, and ends the machine, which
// frees its memory. The next operation resumes it. Pause does nothing if the workspace is already
// paused. If Pause fails, the workspace keeps running.
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
		if w, failed := m.record(ctx, kind, id); failed != nil || w.Disks.Checkpoint != "" { // the supervisor might have paused it just now
			return m.now(ctx, w), failed
		}
	}
	if err != nil {
		return Workspace{}, fault.Wrap(err, "pause "+string(kind), id)
	}
	defer c.Close()
	err = c.Pause(ctx, pausedReason)
	if fault.KindOf(err) == fault.Unavailable && m.pausedMeanwhile(ctx, kind, id) {
		err = nil
	}
	if err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, kind, id)
}

// silentPatience is how long a supervisor that no longer answers can take to end.
const silentPatience = 10 * time.Second

// pausedMeanwhile reports whether a supervisor that no longer answers has paused its machine. A
// process may have requested a pause before it was killed, and the pause may have just ended.
func (m *Manager) pausedMeanwhile(ctx context.Context, kind store.Kind, id string) bool {
	patient, cancel := context.WithTimeout(ctx, silentPatience)
	defer cancel()
	if m.folder(id).AwaitEnd(patient) != nil {
		return false
	}
	w, err := m.record(ctx, kind, id)
	return err == nil && w.Disks.Checkpoint != ""
}

// pausedReason is the recorded reason of a pause that a user requested.
const pausedReason = "it was paused"

// rootInCheckpoint reports whether a locked workspace is paused and the changes to its root disk
// are only in the saved machine.
func (m *Manager) rootInCheckpoint(ctx context.Context, id string) (bool, error) {
	w, err := m.Store.Workspace(ctx, id)
	if err != nil || w.Disks.Checkpoint == "" || m.folder(id).Running() {
		return false, err
	}
	features, err := m.features(w.Spec)
	return !features.BlockDisks, err
}

// Resume resumes a paused workspace. It does nothing if the workspace runs. The error has kind
// Precondition if the workspace is stopped, and kind Corrupt if the saved machine is damaged. In
// both cases the state does not change.
func (m *Manager) Resume(ctx context.Context, kind store.Kind, id string, report progress.Func) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	if _, err := m.record(ctx, kind, id); err != nil {
		return Workspace{}, err
	}
	runs, err := m.runs(ctx, id) // a supervisor whose starter has died might be about to end
	if err == nil && !runs {
		err = m.resume(ctx, kind, id, report)
	}
	if err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, kind, id)
}

// resume starts a locked, paused workspace that has no supervisor.
func (m *Manager) resume(ctx context.Context, kind store.Kind, id string, report progress.Func) error {
	w, err := m.Get(ctx, kind, id)
	if err != nil {
		return err
	}
	if w.State != Paused {
		return fault.New(fault.Precondition, "resume "+string(kind), id, "it is %s, not paused", w.State).WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", id))
	}
	return m.start(ctx, id, report)
}

// rootLost is added to the reason for a stop if changes to the root disk were lost. They were in a
// saved machine that can't be resumed.
const rootLost = ", and could not continue: /workspace is kept, and everything else is as it was at the last stop"

// forget turns a locked, paused workspace into a stopped one. Its programs are lost. If the changes
// to the root disk are only in the saved machine, forget resumes the machine and saves them. If the
// machine can't be resumed, these changes are lost too.
func (m *Manager) forget(ctx context.Context, id string) error {
	w, err := m.Store.Workspace(ctx, id)
	if err != nil || w.Disks.Checkpoint == "" {
		return err
	}
	reason := "it was stopped while it was paused"
	needed, err := m.rootInCheckpoint(ctx, id)
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
	w.Disks.Checkpoint = ""
	if err := m.Store.SetDisks(ctx, id, w.Disks); err != nil {
		return err
	}
	// The sweep is first, because WriteEnd might need the space that it frees.
	swept := m.sweepDisks(context.WithoutCancel(ctx), id)
	return errors.Join(swept, m.folder(id).WriteEnd(remote.End{Reason: reason}))
}
