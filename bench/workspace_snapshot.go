package main

import (
	"fmt"

	"github.com/pyro-mcp/pyro"
)

// stored measures snapshots, resets and forks for each kind of workspace.
func (w *workspaces) stored() error {
	for _, k := range w.kinds {
		measure := w.copied
		if k.driver.Features().BlockDisks {
			measure = w.layered
		}
		if err := measure(k); err != nil {
			return err
		}
	}
	return nil
}

// kept is the name of the snapshot that resets and forks use.
const kept = "kept"

func (w *workspaces) snapshot(id, name string) error {
	_, err := w.sdk.CreateSnapshot(w.ctx, pyro.CreateSnapshotRequest{WorkspaceID: id, SnapshotName: name})
	return err
}

// The next three functions measure operations on a workspace that has the snapshot "kept".

func (w *workspaces) snapshotting(id string) func() (float64, error) {
	return func() (float64, error) {
		w.copies++
		return clocked(func() error { return w.snapshot(id, fmt.Sprintf("copy-%d", w.copies)) })
	}
}

func (w *workspaces) resetting(id string) func() (float64, error) {
	return func() (float64, error) {
		return clocked(func() error {
			_, err := w.sdk.ResetWorkspace(w.ctx, pyro.ResetWorkspaceRequest{WorkspaceID: id, Snapshot: kept})
			return err
		})
	}
}

// forking measures forks of a snapshot, or of the running workspace if snapshot is empty.
func (w *workspaces) forking(id, snapshot string) func() (float64, error) {
	return func() (float64, error) {
		var forks *pyro.ForkedWorkspaces
		took, err := clocked(func() (err error) {
			forks, err = w.sdk.ForkWorkspace(w.ctx, pyro.ForkWorkspaceRequest{WorkspaceID: id, Snapshot: snapshot})
			return err
		})
		if err != nil {
			return 0, err
		}
		return took, w.discard(forks.Workspaces[0].WorkspaceID)
	}
}

// fill is a program that writes a number of MiB of incompressible data and flushes the data.
const fill = `import os, sys
piece = os.urandom(1 << 20)
with open("/workspace/content", "wb") as f:
    for i in range(int(sys.argv[1])): f.write(i.to_bytes(8, "little") + piece[8:])
    f.flush()
    os.fsync(f.fileno())
os.sync()`

// layered measures how much the time depends on the amount of data in a workspace that has block
// storage.
func (w *workspaces) layered(k kind) error {
	var ids []string
	for _, mib := range []int{10, 2048} {
		id, err := w.create(k, "")
		if err != nil {
			return err
		}
		if _, err := w.run(id, "python3", "-c", fill, fmt.Sprint(mib)); err != nil {
			return err
		}
		if err := w.snapshot(id, kept); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	for _, o := range []struct {
		name string
		of   func(id string) func() (float64, error)
	}{{"snapshot create", w.snapshotting}, {"reset", w.resetting}, {"fork", func(id string) func() (float64, error) { return w.forking(id, kept) }}} {
		r, err := w.alternate(min(w.n, 5), o.of(ids[1]), o.of(ids[0]))
		if err != nil {
			return err
		}
		w.figures = append(w.figures, figure(fmt.Sprintf("%s: workspace %s of 2 GB; floor: of 10 MB", k.isolation, o.name), "ms", r[0]).times(r[0], r[1], 1.3))
	}
	for _, id := range ids {
		if err := w.delete(id); err != nil {
			return err
		}
	}
	return nil
}

// copied compares tree storage with cp. A snapshot shares unchanged files, so it must be faster
// than a copy. If an operation starts a machine, the time to create an empty workspace is
// subtracted.
func (w *workspaces) copied(k kind) error {
	tree, err := w.tree(artifact)
	if err != nil {
		return err
	}
	id, err := w.create(k, tree)
	if err != nil {
		return err
	}
	if err := w.snapshot(id, kept); err != nil {
		return err
	}
	r, err := w.alternate(w.slow(), w.copying(tree, "-a", "--reflink=auto"), w.creation(k, "", nil), w.snapshotting(id), w.resetting(id), w.forking(id, kept))
	if err != nil {
		return err
	}
	one, start := r[0], r[1]
	of := fmt.Sprintf("%s: workspace %%s, 2,000 files of 200 MB; floor: cp -a, sync", k.isolation)
	w.figures = append(w.figures, figure(fmt.Sprintf(of, "snapshot create"), "ms", r[2]).times(r[2], one, 1.2),
		figure(fmt.Sprintf(of, "reset less an empty one's start"), "ms", less(r[3], start)).times(less(r[3], start), one, 1.2),
		figure(fmt.Sprintf(of, "fork less an empty one's start"), "ms", less(r[4], start)).times(less(r[4], start), one, 1.2))
	return w.discard(id)
}
