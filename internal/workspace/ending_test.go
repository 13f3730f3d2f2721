package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestEndingSupervisorReplacesDisks checks operations that wait for a supervisor that replaces
// the disks just before it ends. They must use the new disks, even if they have read the old
// record.
func TestEndingSupervisorReplacesDisks(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m, "a", "alpha")
	_, err := m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	for name, operation := range map[string]func(ctx context.Context) error{
		"start": func(ctx context.Context) error {
			_, err := m.Start(ctx, store.KindWorkspace, w.ID, nil)
			return err
		},
		"snapshot": func(ctx context.Context) error {
			_, err := m.CreateSnapshot(ctx, w.ID, "mine", true)
			return err
		},
	} {
		if _, err := m.Stop(t.Context(), store.KindWorkspace, w.ID); err != nil {
			t.Fatal(err)
		}
		dying, err := m.folder(w.ID).Take()
		check(t, err)
		done := make(chan error, 1)
		go func() { done <- operation(t.Context()) }()
		time.Sleep(300 * time.Millisecond) // by now the operation has read the record and waits
		old := replace(t, m, w.ID)
		dying.Release()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		record, err := m.Store.Workspace(t.Context(), w.ID)
		if err != nil || record.Disks.Volume[0] == old.Volume[0] {
			t.Errorf("%s: it works on %+v, %v", name, record.Disks, err)
		}
	}
	_, err = m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	before, err := m.Store.Workspace(t.Context(), w.ID)
	check(t, err)
	replace(t, m, w.ID)
	if now := m.now(t.Context(), before); now.State != Stopped {
		t.Errorf("for an older record: got %+v", now)
	}
	_, err = m.Start(t.Context(), store.KindWorkspace, w.ID, nil)
	check(t, err)
	wantFile(t, m, w.ID, "a", "alpha")
}

// TestEndingSupervisorHasPaused checks operations that wait for a supervisor that pauses its
// machine and ends. They must see a paused workspace.
func TestEndingSupervisorHasPaused(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := stopped(t, m, "a", "alpha")
	record, err := m.Store.Workspace(t.Context(), w.ID)
	check(t, err)
	for name, operation := range map[string]func(ctx context.Context) (store.Disks, error){
		"pause": func(ctx context.Context) (store.Disks, error) {
			w, err := m.Pause(ctx, store.KindWorkspace, w.ID)
			if err == nil && w.State != Paused {
				t.Errorf("it is %s", w.State)
			}
			return w.Disks, err
		},
		"live fork": func(ctx context.Context) (store.Disks, error) {
			from, _, err := m.forkFrom(ctx, record, "", true)
			return from, err
		},
	} {
		check(t, m.Store.SetDisks(t.Context(), w.ID, record.Disks))
		_, err := operation(t.Context())
		wantKind(t, name+" of one that is stopped", err, fault.Precondition)
		dying, err := m.folder(w.ID).Take()
		check(t, err)
		var disks store.Disks
		done := make(chan error, 1)
		go func() {
			var err error
			disks, err = operation(t.Context())
			done <- err
		}()
		time.Sleep(300 * time.Millisecond) // by now the operation has read the record and waits
		paused := record.Disks
		paused.Checkpoint = "memory-x"
		check(t, m.Store.SetDisks(t.Context(), w.ID, paused))
		dying.Release()
		if err := <-done; err != nil || disks.Checkpoint != "memory-x" {
			t.Errorf("%s: %+v, %v", name, disks, err)
		}
	}
}

// replace replaces the volume of a workspace by one with the same files. It returns the old disks.
func replace(t *testing.T, m *Manager, id string) store.Disks {
	t.Helper()
	w, err := m.Store.Workspace(t.Context(), id)
	check(t, err)
	disks, err := m.disks(w)
	check(t, err)
	next := w.Disks
	next.Volume = []string{w.Disks.Volume[0] + "x"}
	check(t, os.Rename(disks.DiskPath(w.Disks.Volume[0]), disks.DiskPath(next.Volume[0])))
	check(t, m.Store.SetDisks(t.Context(), id, next))
	return w.Disks
}

// TestSweepDuringDelete checks that a workspace can be deleted while other processes
// sweep.
func TestSweepDuringDelete(t *testing.T) {
	m := newManager(t)
	var files []string
	for i := range 200 {
		files = append(files, fmt.Sprintf("d%d/f%d", i%50, i), "x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	defer cancel()
	for range 3 {
		other := managerOf(t, m.Dirs)
		sweeping.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
				if _, err := other.Sweep(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		w := create(t, m, files...)
		check(t, m.Delete(t.Context(), store.KindWorkspace, w.ID))
		// Another process might be removing the empty folder.
		testenv.Eventually(t, "its folder is removed", func() bool {
			_, err := os.Stat(string(m.folder(w.ID)))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}
