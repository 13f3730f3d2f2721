package workspace

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Reset gives a workspace a new machine: with a fresh root, or that of a whole snapshot, and with the /workspace of a snapshot or of the baseline. Its history is
// forgotten; its id, name, labels, snapshots and baseline stay. It runs when Reset returns. Where Reset fails before the one moment in which all of that becomes
// true, the workspace is as it was, be it stopped; after it, it has been reset, and the error says that it could not be started.
func (m *Manager) Reset(ctx context.Context, id, snapshot string, report progress.Func) (Workspace, error) {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return Workspace{}, err
	}
	from, whole, err := m.from(ctx, w, snapshot)
	if err != nil {
		return Workspace{}, err
	}
	if err := m.reset(ctx, w, from, whole); err != nil {
		return Workspace{}, fault.Wrap(err, "reset workspace", id)
	}
	if err := m.start(ctx, id, report); err != nil {
		return Workspace{}, fault.Wrap(err, "start workspace that has been reset", id)
	}
	return m.Get(ctx, store.KindWorkspace, id)
}

// reset has the workspace be another. Its lock is held.
func (m *Manager) reset(ctx context.Context, w store.Workspace, from store.Disks, whole bool) error {
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	needed := from.Volume
	if whole {
		needed = slices.Concat(from.Volume, from.Root)
	}
	if missing := disks.MissingOf(needed); missing != "" {
		return fault.Newf(fault.Corrupt, "disk %s is missing", missing)
	}
	next, err := disks.Reset(ctx, from, w.Disks, whole) // while the machine runs on: where this fails, nothing has happened
	if err == nil {
		err = m.stop(ctx, w.ID, "it was reset", true)
	}
	if err == nil {
		err = m.Store.Reset(ctx, w.ID, next, time.Now())
	}
	if err != nil {
		return errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), w.ID))
	}
	// The old disks go with the next start.
	return tree.Remove(context.WithoutCancel(ctx), m.folder(w.ID).Services())
}

// MaxForks is how many workspaces one call makes.
const MaxForks = 64

// Fork makes new workspaces that begin as a snapshot of another, as its baseline, or, where snapshot is empty, as it is now: with live, all that runs in it goes on in
// each. They run when Fork returns, with names as of forkNames. It is their baseline. As many are made at once as there are processors; where one can't be made, those that were are given with the
// error.
func (m *Manager) Fork(ctx context.Context, id, snapshot string, live bool, count int, spec Spec) ([]Workspace, error) {
	if err := spec.checkDiscovery(); err != nil {
		return nil, err
	}
	if live && snapshot != "" {
		return nil, fault.New(fault.Invalid, "fork workspace", id, "a snapshot has nothing that runs")
	}
	if _, err := m.Sweep(ctx); err != nil {
		return nil, err
	}
	lock, err := m.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	names, err := m.forkNames(ctx, w.Name, spec.Name, count)
	if err != nil {
		return nil, err
	}
	from, whole, err := m.forkFrom(ctx, w, snapshot, live)
	if err != nil {
		return nil, fault.Wrap(err, "fork workspace", id)
	}
	if snapshot == "" {
		defer m.sweepDisks(context.WithoutCancel(ctx), id)
	}
	var mu sync.Mutex
	made := make([]Workspace, count) // in the order of their names, whichever is ready first
	next := 0
	var failed error
	var making sync.WaitGroup
	for range min(count, runtime.NumCPU()) {
		making.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for failed == nil && next < count {
				at := next
				next++
				named := spec
				named.Name = names[at]
				mu.Unlock()
				one, err := m.fork(ctx, w, from, whole, named)
				mu.Lock()
				if err != nil {
					failed = cmp.Or(failed, fault.Wrap(err, "fork workspace", id))
				} else {
					made[at] = one
				}
			}
		})
	}
	making.Wait()
	return slices.DeleteFunc(made, func(w Workspace) bool { return w.ID == "" }), failed
}

// forkFrom gives the disks that forks begin as. Where no snapshot is named they are those of one that is taken for that.
func (m *Manager) forkFrom(ctx context.Context, w store.Workspace, snapshot string, live bool) (from store.Disks, whole bool, err error) {
	if snapshot != "" {
		return m.from(ctx, w, snapshot)
	}
	snapshot = "." + newID(store.KindWorkspace)
	err = m.takeSnapshot(ctx, w, snapshot, true, live)
	if live && fault.KindOf(err) == fault.Precondition {
		if w, failed := m.Store.Workspace(ctx, w.ID); failed != nil || w.Disks.Memory != "" { // it is paused, since just now perhaps
			return w.Disks, true, failed
		}
	}
	if err != nil {
		return from, false, err
	}
	return m.from(ctx, w, snapshot)
}

func (m *Manager) fork(ctx context.Context, source store.Workspace, from store.Disks, whole bool, spec Spec) (Workspace, error) {
	features, err := m.features(source.Spec)
	if err != nil {
		return Workspace{}, err
	}
	if features.Isolated {
		lease, err := m.environmentOf(ctx, source, spec.Progress) // so that it is there until the record is
		if err != nil {
			return Workspace{}, err
		}
		defer lease.Close()
	}
	w := store.Workspace{ID: newID(store.KindWorkspace), Kind: store.KindWorkspace, Name: spec.Name, Labels: spec.Labels, Spec: source.Spec, CreatedAt: time.Now().UTC()}
	if w.Secrets, err = m.reseal(ctx, source, w.ID); err != nil {
		return Workspace{}, err
	}
	seed := source.Spec.Seed
	seed.Fork = source.ID
	disks, err := m.disks(source)
	if err != nil {
		return Workspace{}, err
	}
	return m.make(ctx, w, spec.Progress, features.BlockDisks, func(ctx context.Context, f storage.Folder) (store.Disks, store.Seed, error) {
		d, err := f.Fork(ctx, disks, from, whole)
		return d, seed, err
	})
}
