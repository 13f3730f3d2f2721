package workspace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Baseline is the name of the initial state of a workspace. It always exists, and no snapshot can
// have this name.
const Baseline = "baseline"

// MaxSnapshotName is the maximum length of a snapshot's name, in characters.
const MaxSnapshotName = 64

// MaxSnapshots is the maximum number of snapshots of a workspace. In block storage, each snapshot
// adds a layer, which makes reads slower.
const MaxSnapshots = 64

// Snapshot is a saved state to which a workspace can be reset.
type Snapshot struct {
	Name      string
	Baseline  bool
	Whole     bool // whether it includes the root disk
	SizeBytes int64
	CreatedAt time.Time
}

func checkSnapshotName(name string) error {
	if name == Baseline {
		return fault.Newf(fault.Invalid, "the name %s is reserved", Baseline)
	}
	ok := name != "" && len(name) <= MaxSnapshotName && name[0] != '.' && name[0] != '-'
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	if !ok {
		return fault.Newf(fault.Invalid, "%q is not a valid name of a snapshot: it must have 1 to %d letters, digits, dots, dashes and underscores, and not begin with a dot or dash",
			name[:min(len(name), 2*MaxSnapshotName)], MaxSnapshotName)
	}
	return nil
}

// CreateSnapshot saves the current state of a workspace under a name. It saves /workspace, and also
// the root disk if whole is true. The workspace can be running.
func (m *Manager) CreateSnapshot(ctx context.Context, id, name string, whole bool) (Snapshot, error) {
	if err := checkSnapshotName(name); err != nil {
		return Snapshot{}, fault.Wrap(err, "create snapshot", "")
	}
	lock, err := m.lock(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	defer lock.Release()
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return Snapshot{}, err
	}
	if err := m.takeSnapshot(ctx, w, name, whole, false); err != nil {
		return Snapshot{}, err
	}
	s, err := m.Store.Snapshot(ctx, id, name)
	return snapshotOf(s), err
}

// takeSnapshot takes a snapshot of a locked workspace. If the workspace runs, its supervisor takes
// the snapshot. If live is true, the snapshot includes the running machine. If live is true and the
// workspace does not run, the error has kind Precondition.
func (m *Manager) takeSnapshot(ctx context.Context, w store.Workspace, name string, whole, live bool) error {
	all, err := m.Store.Snapshots(ctx, w.ID)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s store.Snapshot) bool { return s.Temporary() })
	if len(all) >= MaxSnapshots && !(store.Snapshot{Name: name}).Temporary() {
		return fault.New(fault.Exhausted, "create snapshot", name, "the workspace has %d snapshots, which is the maximum", len(all)).
			WithHint("%s", fault.Act("snapshot_delete", "pyro workspace snapshot delete %s %s", w.ID, all[0].Name).Taking("snapshot_name %q", all[0].Name))
	}
	asleep := false
	if whole && !live {
		if asleep, err = m.rootInCheckpoint(ctx, w.ID); err == nil && asleep {
			err = m.start(ctx, w.ID, nil)
		}
		if err != nil {
			return err
		}
	}
	c, err := remote.Dial(ctx, m.folder(w.ID))
	if err == nil {
		defer c.Close()
		err := c.Snapshot(ctx, name, whole, live)
		if err != nil && ctx.Err() == nil { // if the caller has left, the supervisor still uses the disks
			m.sweepDisks(context.WithoutCancel(ctx), w.ID)
		}
		if asleep {
			_ = c.Pause(ctx, pausedReason) // if the pause fails, the workspace keeps running, and its state shows that
		}
		return err
	}
	if fault.KindOf(err) != fault.Precondition || live {
		return err
	}
	if w, err = m.Store.Workspace(ctx, w.ID); err != nil { // a supervisor that has just ended might have replaced disks
		return err
	}
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Name == name {
			return fault.New(fault.Exists, "create snapshot", name, "the workspace has a snapshot with this name").WithHint("%s", fault.Act("snapshot_delete", "pyro workspace snapshot delete %s %s", w.ID, name).Taking("snapshot_name %q", name))
		}
	}
	s, err := disks.Prepare(ctx, w.Disks, whole)
	if err == nil {
		err = disks.Take(ctx, s)
	}
	if err == nil {
		err = m.Store.AddSnapshot(ctx, w.ID, disks.Record(name, whole, s), s.Next)
	}
	if err != nil {
		m.sweepDisks(context.WithoutCancel(ctx), w.ID)
	}
	return err
}

// Snapshots returns the snapshots of a workspace, starting with the baseline.
func (m *Manager) Snapshots(ctx context.Context, id string) ([]Snapshot, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	disks, err := m.disks(w)
	if err != nil {
		return nil, err
	}
	base := store.Disks{Volume: w.Disks.Baseline}
	all := []Snapshot{{Name: Baseline, Baseline: true, SizeBytes: disks.Size(base, store.Disks{}), CreatedAt: w.CreatedAt}}
	snapshots, err := m.Store.Snapshots(ctx, id)
	for _, s := range snapshots {
		if !s.Temporary() {
			all = append(all, snapshotOf(s))
		}
	}
	return all, err
}

func snapshotOf(s store.Snapshot) Snapshot {
	return Snapshot{Name: s.Name, Whole: s.Whole, SizeBytes: s.SizeBytes, CreatedAt: s.CreatedAt}
}

// DeleteSnapshot deletes a snapshot.
func (m *Manager) DeleteSnapshot(ctx context.Context, id, name string) error {
	if name == Baseline {
		return fault.New(fault.Invalid, "delete snapshot", name, "the baseline can't be deleted")
	}
	if err := checkSnapshotName(name); err != nil {
		return fault.Wrap(err, "delete snapshot", "")
	}
	lock, err := m.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.Release()
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return err
	}
	deleted := store.Event{Kind: store.EventSnapshotDeleted, At: time.Now(), Detail: store.Detail{Name: name}}
	if err := m.Store.DeleteSnapshot(ctx, id, name, deleted); err != nil {
		return err
	}
	return m.sweepDisks(context.WithoutCancel(ctx), id)
}

// sweepDisks removes the disks that a locked workspace no longer needs.
func (m *Manager) sweepDisks(ctx context.Context, id string) error {
	return m.keepDisks(ctx, id, storage.Folder.Sweep)
}

// keepDisks calls the function prune with the disks that a locked workspace still needs.
func (m *Manager) keepDisks(ctx context.Context, id string, prune func(f storage.Folder, ctx context.Context, keep ...store.Disks) error) error {
	lock, err := m.folder(id).TakeDisks(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	w, err := m.Store.Workspace(ctx, id)
	if err != nil {
		return err
	}
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	all, err := m.Store.Snapshots(ctx, id)
	if err != nil {
		return err
	}
	keep := []store.Disks{w.Disks}
	for _, s := range all {
		if s.Temporary() {
			if err := m.Store.DeleteSnapshot(ctx, id, s.Name); err != nil {
				return err
			}
			continue
		}
		keep = append(keep, s.Disks)
	}
	return prune(disks, ctx, keep...)
}

// from returns the disks for a reset or a fork, and whether they include the root disk.
func (m *Manager) from(ctx context.Context, w store.Workspace, snapshot string) (d store.Disks, whole bool, err error) {
	if snapshot == "" || snapshot == Baseline {
		return store.Disks{Volume: w.Disks.Baseline}, false, nil
	}
	s, err := m.Store.Snapshot(ctx, w.ID, snapshot)
	return s.Disks, s.Whole, err
}
