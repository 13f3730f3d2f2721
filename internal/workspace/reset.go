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

// Reset resets a workspace to its baseline or a snapshot, and starts a new machine. The root disk
// is fresh, or comes from the snapshot if that includes the root disk. The history is deleted. The
// ID, the name, the labels, the snapshots and the baseline are kept.
//
// The reset is one database transaction. If Reset fails before the transaction, the workspace is
// unchanged, but might be stopped. If Reset fails after the transaction, the error says that the
// workspace could not be started.
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
	report.Phase("copying files", id)
	if err := m.reset(ctx, w, from, whole); err != nil {
		return Workspace{}, fault.Wrap(err, "reset workspace", id)
	}
	if err := m.start(ctx, id, report); err != nil {
		return Workspace{}, fault.Wrap(err, "start workspace that has been reset", id)
	}
	return m.Get(ctx, store.KindWorkspace, id)
}

// reset replaces the disks of a locked workspace, and stops its machine.
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
	next, err := disks.Reset(ctx, from, w.Disks, whole) // the machine still runs, so if this fails, nothing has changed
	if err == nil {
		err = m.stop(ctx, w.ID, "it was reset", true)
	}
	if err == nil {
		err = m.Store.Reset(ctx, w.ID, next, time.Now())
	}
	if err != nil {
		return errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), w.ID))
	}
	// The next start removes the old disks. The logs of services are removed here.
	return tree.Remove(context.WithoutCancel(ctx), m.folder(w.ID).Services())
}

// MaxForks is the largest number of forks in one call.
const MaxForks = 64

// Fork creates count workspaces that start with the state of a snapshot, or with the current state
// if snapshot is empty. That state becomes their baseline. If live is true, running programs
// continue in each fork.
//
// The forks run when Fork returns. Their names come from forkNames. Fork creates as many of them at
// the same time as there are processors. If one can't be created, Fork returns the others together
// with the error.
func (m *Manager) Fork(ctx context.Context, id, snapshot string, live bool, count int, spec Spec) ([]Workspace, error) {
	if err := spec.checkDiscovery(); err != nil {
		return nil, err
	}
	if live && snapshot != "" {
		return nil, fault.New(fault.Invalid, "fork workspace", id, "a snapshot has no running programs")
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
	spec.Progress.Phase("copying files", id)
	from, whole, err := m.forkFrom(ctx, w, snapshot, live)
	if err != nil {
		return nil, fault.Wrap(err, "fork workspace", id)
	}
	if snapshot == "" {
		defer m.sweepDisks(context.WithoutCancel(ctx), id)
	}
	var mu sync.Mutex
	made := make([]Workspace, count) // forks in the order of their names
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
				one, err := m.fork(ctx, w, from, whole, snapshot == "" && count == 1, named)
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

// forkFrom returns the disks for forks. If no snapshot is named, it takes a temporary one.
func (m *Manager) forkFrom(ctx context.Context, w store.Workspace, snapshot string, live bool) (from store.Disks, whole bool, err error) {
	if snapshot != "" {
		return m.from(ctx, w, snapshot)
	}
	snapshot = "." + newID(store.KindWorkspace)
	err = m.takeSnapshot(ctx, w, snapshot, true, live)
	if live && fault.KindOf(err) == fault.Precondition {
		// The workspace is paused, perhaps by another process a moment ago.
		if w, failed := m.Store.Workspace(ctx, w.ID); failed != nil || w.Disks.Checkpoint != "" {
			return w.Disks, true, failed
		}
	}
	if err != nil {
		return from, false, err
	}
	from, whole, err = m.from(ctx, w, snapshot)
	if err != nil {
		err = errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), w.ID))
	}
	return from, whole, err
}

// fork creates one fork of source. The parameter from contains the disks to start from. If owned is
// true, they are a snapshot for this fork only.
func (m *Manager) fork(ctx context.Context, source store.Workspace, from store.Disks, whole, owned bool, spec Spec) (Workspace, error) {
	features, err := m.features(source.Spec)
	if err != nil {
		return Workspace{}, err
	}
	if features.Isolated {
		ref, err := m.environmentOf(ctx, source, spec.Progress) // keeps the environment locked until the record of the fork exists
		if err != nil {
			return Workspace{}, err
		}
		defer ref.Close()
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
		d, err := f.Fork(ctx, disks, from, whole, owned)
		return d, seed, err
	})
}
