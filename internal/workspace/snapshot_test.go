package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// stopped returns a stopped workspace.
func stopped(t *testing.T, m *Manager, files ...string) Workspace {
	t.Helper()
	w := create(t, m, files...)
	w, err := m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	return w
}

func TestSnapshotNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "v1.0_x-y": true, "9": true, strings.Repeat("x", MaxSnapshotName): true, "_a": true,
		"": false, Baseline: false, ".": false, "..": false, ".hidden": false, "-f": false, "a b": false, "a/b": false, "ü": false, "a\n": false, "a\x00": false,
		strings.Repeat("x", MaxSnapshotName+1): false,
	} {
		if err := checkSnapshotName(name); (err == nil) != ok || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestTemporarySnapshotsAreHiddenAndSwept checks the temporary snapshot of a fork that was killed.
// It must not be listed, and the next fork must remove it.
func TestTemporarySnapshotsAreHiddenAndSwept(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := stopped(t, m, "a", "alpha")
	check(t, m.takeSnapshot(ctx, w.Workspace, ".ws-killed", true, false))
	kept, err := m.Store.Snapshot(ctx, w.ID, ".ws-killed")
	check(t, err)
	disks, err := m.disks(w.Workspace)
	check(t, err)
	if all, err := m.Snapshots(ctx, w.ID); err != nil || len(all) != 1 || all[0].Name != Baseline {
		t.Errorf("%+v, %v", all, err)
	}
	wantKind(t, "deleting it", m.DeleteSnapshot(ctx, w.ID, ".ws-killed"), fault.Invalid)
	forks, err := m.Fork(ctx, w.ID, "", false, 2, Spec{})
	if err != nil || len(forks) != 2 || forks[0].State != Started {
		t.Fatalf("%+v, %v", forks, err)
	}
	for _, fork := range forks {
		wantFile(t, m, fork.ID, "a", "alpha")
	}
	if all, err := m.Store.Snapshots(ctx, w.ID); err != nil || len(all) != 0 {
		t.Errorf("left: %+v, %v", all, err)
	}
	if disks.Missing(kept.Disks) == "" {
		t.Error("the disks of a temporary snapshot still exist")
	}
	if entries, _ := os.ReadDir(disks.Path); len(entries) != 2 { // the baseline and the volume
		t.Errorf("left: %v", entries)
	}
	wantState(t, m, w.ID, Stopped, "it was stopped")
}

func TestSnapshotLimit(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := stopped(t, m)
	_, err := m.CreateSnapshot(ctx, w.ID, "first", false)
	check(t, err)
	one, err := m.Store.Snapshot(ctx, w.ID, "first")
	check(t, err)
	for i := range MaxSnapshots - 2 {
		one.Name = fmt.Sprintf("n%d", i)
		now, err := m.Store.Workspace(ctx, w.ID)
		check(t, err)
		check(t, m.Store.AddSnapshot(ctx, w.ID, one, now.Disks))
	}
	// The temporary snapshot of a killed fork does not count.
	one.Name, one.CreatedAt = ".ws-killed", time.Unix(1, 0)
	now, err := m.Store.Workspace(ctx, w.ID)
	check(t, err)
	check(t, m.Store.AddSnapshot(ctx, w.ID, one, now.Disks))
	if _, err := m.CreateSnapshot(ctx, w.ID, "last", false); err != nil {
		t.Errorf("last allowed snapshot: hint %q: %v", fault.HintOf(err), err)
	}
	_, err = m.CreateSnapshot(ctx, w.ID, "too-many", false)
	if fault.KindOf(err) != fault.Exhausted || !strings.Contains(fault.HintOf(err), "snapshot delete "+w.ID+" first") {
		t.Errorf("snapshot beyond the limit: got %s, hint %q: %v", fault.KindOf(err), fault.HintOf(err), err)
	}
	check(t, m.DeleteSnapshot(ctx, w.ID, "n0"))
	if disks, err := m.disks(w.Workspace); err != nil || disks.Missing(one.Disks) != "" {
		t.Error("disks in use were removed")
	}
	wantKind(t, "again", m.DeleteSnapshot(ctx, w.ID, "n0"), fault.NotFound)
	wantKind(t, "the baseline", m.DeleteSnapshot(ctx, w.ID, Baseline), fault.Invalid)
}

// withBlockStorage returns a workspace with block storage that is not in the database yet. It is
// locked until the end of the test, and needs no machine.
func withBlockStorage(t *testing.T, m *Manager) (store.Workspace, remote.Folder, storage.Folder) {
	t.Helper()
	w := store.Workspace{ID: "ws-1", Kind: store.KindWorkspace, Spec: store.Spec{Isolation: "tcg"}, Starts: 1}
	folder, lock, err := m.newFolder(w.ID)
	check(t, err)
	t.Cleanup(lock.Release)
	disks := remote.DisksOf(m.Dirs, folder, true, store.Spec{})
	w.Disks, err = disks.Create(t.Context(), nil)
	check(t, err)
	return w, folder, disks
}

// TestResetToMissingDiskChangesNothing checks that a reset fails without effect if a disk of the
// snapshot is missing. It uses block storage, and needs no machine.
func TestResetToMissingDiskChangesNothing(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w, _, disks := withBlockStorage(t, m)
	check(t, os.WriteFile(disks.DiskPath(w.Disks.Root[0]), nil, 0o600)) // creates the root disk, as a started machine does
	check(t, m.Store.AddWorkspace(ctx, w))
	check(t, m.takeSnapshot(ctx, w, "whole", true, false))
	s, err := m.Store.Snapshot(ctx, w.ID, "whole")
	check(t, err)
	w, err = m.Store.Workspace(ctx, w.ID)
	check(t, err)
	for _, name := range []string{s.Disks.Volume[1], s.Disks.Root[0]} {
		path := disks.DiskPath(name)
		check(t, os.Rename(path, path+".away"))
		wantKind(t, "without "+name, m.reset(ctx, w, s.Disks, s.Whole), fault.Corrupt)
		if _, err := os.Lstat(path + ".away"); err == nil {
			check(t, os.Rename(path+".away", path))
		}
		now, err := m.Store.Workspace(ctx, w.ID)
		check(t, err)
		if top := len(now.Disks.Volume) - 1; now.ResetCount != 0 || now.Disks.Volume[top] != w.Disks.Volume[top] {
			t.Errorf("without %s it was reset all the same: %+v", name, now.Disks)
		}
	}
}

// TestFailedSnapshotIsSwept checks that a failed snapshot of a running workspace leaves no disks.
func TestFailedSnapshotIsSwept(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m, "a", "alpha")
	_, err := m.CreateSnapshot(t.Context(), w.ID, "s", true)
	check(t, err)
	disks, err := m.disks(w.Workspace)
	check(t, err)
	path, _ := disks.NewRoot(store.Disks{})
	check(t, os.WriteFile(path, []byte("what the supervisor has saved"), 0o600))
	_, err = m.CreateSnapshot(t.Context(), w.ID, "s", true)
	wantKind(t, "a second of the same name", err, fault.Exists)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the saved root still exists: %v", err)
	}
	wantFile(t, m, w.ID, "a", "alpha")
}

// TestForgetFreesSpaceFirst checks that a stop of a paused workspace removes the saved machine. On
// a full disk, the reason of the end can't be written before that.
func TestForgetFreesSpaceFirst(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w, folder, disks := withBlockStorage(t, m)
	path, next, err := disks.NewCheckpoint(w.Disks)
	check(t, err)
	w.Disks = next
	check(t, os.WriteFile(filepath.Join(path, "memory"), []byte("x"), 0o600))
	check(t, m.Store.AddWorkspace(ctx, w))
	check(t, os.Mkdir(filepath.Join(string(folder), "end.json"), 0o700)) // makes WriteEnd fail
	if err := m.forget(ctx, w.ID); err == nil {
		t.Error("the reason was written")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the saved machine still exists: %v", err)
	}
	check(t, os.Remove(filepath.Join(string(folder), "end.json")))
}
