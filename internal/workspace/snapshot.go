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

// Baseline names the state in which a workspace was created. It is always there, and no snapshot can be called so.
const Baseline = "baseline"

// MaxSnapshotName bounds the name of a snapshot, in characters.
const MaxSnapshotName = 64

// MaxSnapshots is how many a workspace may have. In block storage each is one more layer for the machine to look through.
const MaxSnapshots = 64

// Snapshot is a state that a workspace can be reset to.
type Snapshot struct {
	Name      string
	Baseline  bool
	Whole     bool // the root disk too
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
		return fault.Newf(fault.Invalid, "the name of a snapshot is 1 to %d letters, digits, dots, dashes and underscores, and begins with a letter or digit: %q is not",
			MaxSnapshotName, name[:min(len(name), 2*MaxSnapshotName)])
	}
	return nil
}

// CreateSnapshot keeps the present state of a workspace under a name: its /workspace, and with whole its root disk too. The workspace may run.
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

// takeSnapshot takes one of a workspace whose lock is held: by its supervisor where it runs. With live its machine is saved too; Precondition where it has none.
func (m *Manager) takeSnapshot(ctx context.Context, w store.Workspace, name string, whole, live bool) error {
	all, err := m.Store.Snapshots(ctx, w.ID)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s store.Snapshot) bool { return passing(s.Name) })
	if len(all) >= MaxSnapshots && !passing(name) {
		return fault.New(fault.Exhausted, "create snapshot", name, "the workspace has %d snapshots, which is the most that it can have", len(all)).
			WithHint("%s", fault.Act("snapshot_delete", "pyro workspace snapshot delete %s %s", w.ID, all[0].Name).Taking("snapshot_name %q", all[0].Name))
	}
	asleep := false
	if whole && !live {
		if asleep, err = m.rootInMemory(ctx, w.ID); err == nil && asleep {
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
		if asleep {
			_ = c.Pause(ctx, pausedReason) // where it can't be it runs, which its state tells
		}
		return err
	}
	if fault.KindOf(err) != fault.Precondition || live {
		return err
	}
	if w, err = m.Store.Workspace(ctx, w.ID); err != nil { // a supervisor that has ended since it was read may have replaced disks
		return err
	}
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Name == name {
			return fault.New(fault.Exists, "create snapshot", name, "there is one of this name").WithHint("%s", fault.Act("snapshot_delete", "pyro workspace snapshot delete %s %s", w.ID, name).Taking("snapshot_name %q", name))
		}
	}
	s, err := disks.Prepare(ctx, w.Disks, whole)
	if err == nil {
		err = disks.Take(ctx, s)
	}
	if err == nil {
		err = m.Store.AddSnapshot(ctx, w.ID, store.Snapshot{
			Name: name, Disks: s.Kept, Whole: whole, SizeBytes: disks.Size(s.Kept, store.Disks{}), CreatedAt: time.Now(),
		}, s.Next)
	}
	if err != nil {
		m.sweepDisks(context.WithoutCancel(ctx), w.ID)
	}
	return err
}

// Snapshots gives those of a workspace, the baseline first.
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
	kept, err := m.Store.Snapshots(ctx, id)
	for _, s := range kept {
		if !passing(s.Name) {
			all = append(all, snapshotOf(s))
		}
	}
	return all, err
}

// passing tells whether a snapshot is one that nobody asked for: it is there while the workspace is forked, and its lock held.
func passing(name string) bool { return strings.HasPrefix(name, ".") }

func snapshotOf(s store.Snapshot) Snapshot {
	return Snapshot{Name: s.Name, Whole: s.Whole, SizeBytes: s.SizeBytes, CreatedAt: s.CreatedAt}
}

// DeleteSnapshot forgets a snapshot.
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

// sweepDisks removes what is no longer needed of the disks of a workspace whose lock is held.
func (m *Manager) sweepDisks(ctx context.Context, id string) error {
	return m.keepDisks(ctx, id, storage.Folder.Sweep)
}

// keepDisks has all but the disks that are still needed go in one of the ways there are. The workspace's lock is held.
func (m *Manager) keepDisks(ctx context.Context, id string, way func(f storage.Folder, ctx context.Context, keep ...store.Disks) error) error {
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
		if passing(s.Name) {
			if err := m.Store.DeleteSnapshot(ctx, id, s.Name); err != nil {
				return err
			}
			continue
		}
		keep = append(keep, s.Disks)
	}
	return way(disks, ctx, keep...)
}

// from gives the disks to begin again from.
func (m *Manager) from(ctx context.Context, w store.Workspace, snapshot string) (d store.Disks, whole bool, err error) {
	if snapshot == "" || snapshot == Baseline {
		return store.Disks{Volume: w.Disks.Baseline}, false, nil
	}
	s, err := m.Store.Snapshot(ctx, w.ID, snapshot)
	return s.Disks, s.Whole, err
}
