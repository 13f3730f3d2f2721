package workspace

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Start starts a stopped workspace or a created machine, or resumes a paused one. It does nothing
// if the workspace runs.
func (m *Manager) Start(ctx context.Context, kind store.Kind, id string, report progress.Func) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	if _, err := m.record(ctx, kind, id); err != nil {
		return Workspace{}, err
	}
	runs, err := m.runs(ctx, id)
	if err == nil && !runs {
		err = m.start(ctx, id, report)
	}
	if err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, kind, id)
}

// runs reports whether a locked workspace has a running supervisor. If the starter of the
// supervisor has died, it waits until the supervisor has ended.
func (m *Manager) runs(ctx context.Context, id string) (bool, error) {
	c, err := remote.Dial(ctx, m.folder(id))
	if fault.KindOf(err) == fault.Precondition {
		return false, nil
	}
	if err == nil {
		defer c.Close()
		if _, err = c.Status(ctx); err == nil {
			return true, nil
		}
	}
	if fault.KindOf(err) != fault.Unavailable {
		return false, err
	}
	return false, m.folder(id).AwaitEnd(ctx)
}

// start starts a locked workspace that has no supervisor. It reads the record again, because a
// supervisor that has just ended might have replaced disks.
func (m *Manager) start(ctx context.Context, id string, report progress.Func) error {
	w, err := m.Store.Workspace(ctx, id)
	if err != nil {
		return err
	}
	if missing := m.missing(w); missing != "" {
		return fault.New(fault.Corrupt, "start workspace", w.ID, "%s is missing", missing).WithHint("%s", fault.Act("workspace_delete", "pyro workspace delete %s", w.ID))
	}
	features, err := m.features(w.Spec)
	if err != nil {
		return err
	}
	if err := m.keepDisks(ctx, w.ID, storage.Folder.SetAside); err != nil { // the supervisor removes them later
		return err
	}
	starting, err := m.launch(ctx, w, features.BlockDisks, report)
	if err != nil {
		return err
	}
	now, note := time.Now(), m.Store.Started
	if w.Disks.Checkpoint != "" { // a resumed machine does not count as a new start
		note = m.Store.Active
	}
	if err := note(ctx, w.ID, now, w.Spec.Expiry(now)); err != nil && (w.Disks.Checkpoint == "" || fault.KindOf(err) != fault.Exhausted) {
		starting.Abandon()
		return err
	}
	err = starting.Release()
	if err == nil && w.Disks.Checkpoint != "" {
		m.reportPorts(ctx, w)
	}
	return err
}

// Stop stops a workspace without data loss. It does nothing if the workspace is stopped.
func (m *Manager) Stop(ctx context.Context, kind store.Kind, id string) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	if _, err := m.record(ctx, kind, id); err != nil {
		return Workspace{}, err
	}
	err = m.stop(ctx, id, "it was stopped", false)
	if err == nil {
		err = m.forget(ctx, id)
	}
	if err != nil {
		return Workspace{}, fault.Wrap(err, "stop "+string(kind), id)
	}
	return m.Get(ctx, kind, id)
}

// stop ends the supervisor of a locked workspace, if it has one.
func (m *Manager) stop(ctx context.Context, id, reason string, discard bool) error {
	c, err := remote.Dial(ctx, m.folder(id))
	if fault.KindOf(err) == fault.Precondition {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Stop(ctx, reason, discard)
}

// stopPatience is how long a supervisor whose data is not needed can take to end. After that it is
// killed.
const stopPatience = 3 * time.Second

// deleted is the reason that is recorded when the machine of a deleted workspace ends.
const deleted = "it was deleted"

// end ends the supervisor of a workspace, in any state.
func (m *Manager) end(ctx context.Context, id string) error {
	patient, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if err := m.stop(patient, id, deleted, true); err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := m.folder(id).Kill(); err != nil {
		return err
	}
	return m.folder(id).AwaitEnd(ctx)
}

// Delete deletes a workspace in any state, with all its data. The error has kind NotFound if the
// workspace does not exist.
func (m *Manager) Delete(ctx context.Context, kind store.Kind, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	_, err := m.delete(ctx, kind, id, func(store.Workspace) bool { return true })
	return err
}

// delete deletes a workspace if the function ready returns true for its record. It reads the record
// after it has locked the workspace. It reports whether it deleted the workspace.
func (m *Manager) delete(ctx context.Context, kind store.Kind, id string, ready func(store.Workspace) bool) (deleted bool, err error) {
	defer func() { err = fault.Wrap(err, "delete "+string(kind), id) }()
	w, err := m.Store.Workspace(ctx, id)
	known := err == nil
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return false, err
	}
	if known && w.Kind != kind {
		return false, fault.Newf(fault.NotFound, "it is a %s", w.Kind)
	}
	lock, locked := m.lock(ctx, id)
	if locked != nil {
		if fault.KindOf(locked) != fault.NotFound || !known {
			return false, locked
		}
		return true, m.Store.Delete(ctx, id) // the folder of the workspace does not exist
	}
	defer lock.Release()
	if known {
		switch w, err = m.Store.Workspace(ctx, id); {
		case err != nil && fault.KindOf(err) != fault.NotFound:
			return false, err
		case err == nil && !ready(w):
			return false, nil
		}
	}
	if err := m.end(ctx, id); err != nil {
		return false, err
	}
	if err := m.Store.Delete(ctx, id); err != nil {
		return false, err
	}
	return true, m.folder(id).Remove(context.WithoutCancel(ctx))
}

// Reap deletes machines that expired before now and have no supervisor. It returns their IDs.
func (m *Manager) Reap(ctx context.Context, now time.Time) ([]string, error) {
	all, err := m.Store.Workspaces(ctx, store.KindVM)
	reaped := []string{}
	expired := func(w store.Workspace) bool {
		return !w.ExpiresAt.IsZero() && !now.Before(w.ExpiresAt) && !m.folder(w.ID).Running()
	}
	for _, w := range all {
		if !expired(w) {
			continue
		}
		// Another process might start or use the machine before it is locked.
		deleted, err := m.delete(ctx, store.KindVM, w.ID, expired)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return reaped, err
		}
		if deleted || err != nil {
			reaped = append(reaped, w.ID)
		}
	}
	return reaped, err
}
