package workspace

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestLife checks one workspace in all its states.
func TestLife(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := create(t, m, "a", "alpha", "d/b", "beta")
	if w.State != Started || w.Spec.Isolation != "none" || w.Spec.Reason == "" || w.Spec.Seed.Files != 2 || w.Spec.Seed.Mode != "directory" {
		t.Errorf("%+v", w)
	}
	if out := run(t, m, w.ID, "cat a d/b; echo new > c"); out != "alphabeta" {
		t.Errorf("got %q", out)
	}
	if _, err := m.CreateSnapshot(ctx, w.ID, "one", false); err != nil {
		t.Error(err)
	}
	_, err := m.CreateSnapshot(ctx, w.ID, "one", false)
	wantKind(t, "a second of the same name", err, fault.Exists)

	for range 2 {
		if stopped, err := m.Stop(ctx, store.KindWorkspace, w.ID); err != nil || stopped.State != Stopped || stopped.StateReason != "it was stopped" {
			t.Errorf("%+v, %v", stopped, err)
		}
	}
	_, err = m.ReadFile(ctx, w.ID, "a", 10)
	wantKind(t, "a file of one that is stopped", err, fault.Precondition)
	if _, err := m.CreateSnapshot(ctx, w.ID, "two", true); err != nil {
		t.Error(err)
	}
	_, err = m.CreateSnapshot(ctx, w.ID, "two", false)
	wantKind(t, "a second of the same name, stopped", err, fault.Exists)
	_, _, err = m.ReadDisk(ctx, w.ID, "a", 10)
	wantKind(t, "the disk of what has none", err, fault.Unsupported)
	for range 2 {
		if started, err := m.Start(ctx, store.KindWorkspace, w.ID, nil); err != nil || started.State != Started || started.Starts != 2 {
			t.Errorf("%+v, %v", started, err)
		}
	}
	wantFile(t, m, w.ID, "c", "new\n")
	if rows, err := m.History(ctx, w.ID); err != nil || len(rows) != 1 {
		t.Errorf("history: %+v, %v", rows, err)
	}

	check(t, m.WriteFile(ctx, w.ID, "c", []byte("newer")))
	reset, err := m.Reset(ctx, w.ID, "one", nil)
	if err != nil || reset.State != Started || reset.ResetCount != 1 || reset.CommandCount != 0 || reset.ID != w.ID {
		t.Errorf("%+v, %v", reset, err)
	}
	wantFile(t, m, w.ID, "c", "new\n")
	_, err = m.Reset(ctx, w.ID, "none", nil)
	wantKind(t, "to what is not there", err, fault.NotFound)
	wantState(t, m, w.ID, Started, "")
	if _, err := m.Reset(ctx, w.ID, Baseline, nil); err != nil {
		t.Error(err)
	}
	wantFile(t, m, w.ID, "c", "")

	forks, err := m.Fork(ctx, w.ID, "one", false, 1, Spec{Name: "twig", Labels: map[string]string{"a": "b"}})
	if err != nil || len(forks) != 1 || forks[0].Name != "twig" || forks[0].Spec.Seed.Fork != w.ID || forks[0].ResetCount != 0 {
		t.Fatalf("%+v, %v", forks, err)
	}
	check(t, m.WriteFile(ctx, w.ID, "a", []byte("changed")))
	check(t, m.Delete(ctx, store.KindWorkspace, w.ID))
	wantKind(t, "again", m.Delete(ctx, store.KindWorkspace, w.ID), fault.NotFound)
	if _, err := os.Lstat(string(m.folder(w.ID))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	wantFile(t, m, forks[0].ID, "c", "new\n")
	wantFile(t, m, forks[0].ID, "a", "alpha")
	if all, err := m.List(ctx, store.KindWorkspace); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	broken := filepath.Join(t.TempDir(), "broken.tar")
	check(t, os.WriteFile(broken, []byte(strings.Repeat("no archive", 1000)), 0o600))
	for name, change := range map[string]func(*Spec) context.Context{
		"a missing seed":             func(s *Spec) context.Context { s.SeedPath = "/nonexistent"; return t.Context() },
		"a broken seed":              func(s *Spec) context.Context { s.SeedPath = broken; return t.Context() },
		"an invalid name":            func(s *Spec) context.Context { s.Name = "\n"; return t.Context() },
		"no permission for the host": func(s *Spec) context.Context { s.AllowHost = false; return t.Context() },
		"cancelled": func(s *Spec) context.Context {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, fault.Newf(fault.Canceled, "enough"))
			t.Cleanup(cancel)
			return ctx
		},
	} {
		spec := onHost()
		ctx := change(&spec)
		if w, err := m.Create(ctx, spec); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
		if left, _ := filepath.Glob(filepath.Join(m.Dirs.Workspaces(), "*")); left != nil {
			t.Errorf("%s: left %v", name, left)
		}
	}
	m.Program = func() (string, error) { return "/bin/false", nil }
	if w, err := m.Create(t.Context(), onHost()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a supervisor that ends: %+v, %v", w, err)
	}
	if left, _ := filepath.Glob(filepath.Join(m.Dirs.Workspaces(), "*")); left != nil {
		t.Errorf("left %v", left)
	}
}

func TestDeleteInEveryState(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	gone := func(name, id string) {
		t.Helper()
		if err := m.Delete(ctx, store.KindWorkspace, id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Store.Workspace(ctx, id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: its record: %v", name, err)
		}
		if _, err := os.Lstat(string(m.folder(id))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: its folder: %v", name, err)
		}
	}
	w := create(t, m)
	check(t, syscall.Kill(supervisor(t, m, w.ID), syscall.SIGKILL))
	check(t, m.folder(w.ID).AwaitEnd(ctx))
	wantState(t, m, w.ID, Stopped, "killed")

	disks, err := m.disks(w.Workspace)
	check(t, err)
	check(t, os.Rename(disks.Path, disks.Path+".away"))
	wantState(t, m, w.ID, Damaged, "missing")
	_, err = m.Start(ctx, store.KindWorkspace, w.ID, nil)
	wantKind(t, "starting what is damaged", err, fault.Corrupt)
	_, err = m.Reset(ctx, w.ID, "", nil)
	wantKind(t, "resetting what is damaged", err, fault.Corrupt)
	wantKind(t, "deleting it as a machine", m.Delete(ctx, store.KindVM, w.ID), fault.NotFound)
	_, err = m.Get(ctx, store.KindVM, w.ID)
	wantKind(t, "a workspace as a machine", err, fault.NotFound)
	gone("damaged", w.ID)

	record := w.Workspace
	record.ID = "ws-without-folder"
	check(t, m.Store.AddWorkspace(ctx, record))
	wantState(t, m, record.ID, Damaged, "missing")
	gone("no folder", record.ID)

	record.ID = "ws-without-lock"
	check(t, m.Store.AddWorkspace(ctx, record))
	check(t, os.MkdirAll(filepath.Join(string(m.folder(record.ID)), "disks", "x"), 0o700))
	gone("no lock", record.ID)

	check(t, os.MkdirAll(filepath.Join(string(m.folder("ws-without-record")), "disks"), 0o700))
	gone("no record", "ws-without-record")

	running := create(t, m)
	gone("running", running.ID)
	for _, id := range []string{"", ".", "..", "../x", "ws-none", "/etc", ".new-1", strings.Repeat("a", 64), "WS-1", "ä", "a b", "\x00"} {
		wantKind(t, id, m.Delete(ctx, store.KindWorkspace, id), fault.NotFound)
		_, err := m.Get(ctx, store.KindWorkspace, id)
		wantKind(t, id, err, fault.NotFound)
		_, err = m.Start(ctx, store.KindWorkspace, id, nil)
		wantKind(t, id, err, fault.NotFound)
	}
}

// TestDeleteHungSupervisor checks that a workspace can be deleted although its supervisor
// hangs.
func TestDeleteHungSupervisor(t *testing.T) {
	t.Parallel()
	t.Run("hangs", func(t *testing.T) { t.Parallel(); testDeleteHungSupervisor(t, false) })
	t.Run("hangs at its end", func(t *testing.T) { t.Parallel(); testDeleteHungSupervisor(t, true) })
}

func testDeleteHungSupervisor(t *testing.T, socketless bool) {
	m := newManager(t)
	w := create(t, m)
	pid := supervisor(t, m, w.ID)
	testenv.StopProcess(t, pid)
	if socketless {
		check(t, os.Remove(filepath.Join(m.Dirs.Workspaces(), w.ID, "socket")))
	}
	began := time.Now()
	if err := m.Delete(t.Context(), store.KindWorkspace, w.ID); err != nil {
		syscall.Kill(pid, syscall.SIGCONT)
		t.Error(err)
	}
	if took := time.Since(began); took > stopPatience+testenv.Patience {
		t.Errorf("it took %v", took)
	}
}

func TestSweepRemovesUnowned(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	if orphans, err := m.Orphans(ctx); len(orphans) != 0 || err != nil {
		t.Errorf("orphans: %v, %v", orphans, err)
	}
	if n, err := m.Sweep(ctx); n != 0 || err != nil {
		t.Errorf("before anything was: %d, %v", n, err)
	}
	all := m.Dirs.Workspaces()
	w := create(t, m)
	old := time.Now().Add(-2 * sweepAge)
	lockOf := func(name string) *flock.Lock {
		lock, err := flock.Try(filepath.Join(all, name, remote.LifecycleLock), flock.Exclusive)
		check(t, err)
		return lock
	}
	swept := map[string]bool{
		".new-young": false, ".new-old": true, ".new-old-and-locked": false, "ws-dead": true, "ws-being-made": false, "ws-runs": false, "vm-dead": true, "No id": true,
	}
	for name := range swept {
		check(t, os.MkdirAll(filepath.Join(all, name, "disks", "volume-1", "files"), 0o700))
		check(t, os.Chmod(filepath.Join(all, name, "disks", "volume-1", "files"), 0))
	}
	check(t, os.WriteFile(filepath.Join(all, "a file"), nil, 0o600))
	defer lockOf(".new-old-and-locked").Release()
	defer lockOf("ws-being-made").Release()
	runs, err := remote.Folder(filepath.Join(all, "ws-runs")).Take()
	check(t, err)
	defer runs.Release()
	for name := range swept {
		if strings.HasPrefix(name, ".new-old") {
			check(t, os.Chtimes(filepath.Join(all, name), old, old))
		}
	}
	if orphans, err := m.Orphans(ctx); len(orphans) != 4 || err != nil { // Orphans itself removes nothing
		t.Errorf("orphans: %v, %v", orphans, err)
	}
	if n, err := m.Sweep(ctx); err != nil || n != 4 {
		t.Errorf("swept %d, %v", n, err)
	}
	for name, want := range swept {
		if _, err := os.Lstat(filepath.Join(all, name)); errors.Is(err, fs.ErrNotExist) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(all, "a file")); err != nil {
		t.Error("a file was removed:", err)
	}
	wantState(t, m, w.ID, Started, "")
}

func TestMachinesAreReaped(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	spec := onHost()
	spec.Kind, spec.TTLSeconds = store.KindVM, 600
	var ids []string
	for range 3 {
		w, err := m.Create(ctx, spec)
		check(t, err)
		if w.State != Created || w.ExpiresAt.IsZero() || !strings.HasPrefix(w.ID, "vm-") {
			t.Errorf("%+v", w)
		}
		ids = append(ids, w.ID)
	}
	if _, err := m.Start(ctx, store.KindVM, ids[0], nil); err != nil {
		t.Fatal(err)
	}
	if reaped, err := m.Reap(ctx, time.Now()); err != nil || len(reaped) != 0 {
		t.Errorf("before their time: %v, %v", reaped, err)
	}
	check(t, os.RemoveAll(string(m.folder(ids[1])))) // damage one of them
	reaped, err := m.Reap(ctx, time.Now().Add(time.Hour))
	if err != nil || len(reaped) != 2 {
		t.Errorf("%v, %v", reaped, err)
	}
	if left, _ := m.List(ctx, store.KindVM); len(left) != 1 || left[0].ID != ids[0] || left[0].State != Started {
		t.Errorf("left: %+v", left)
	}
}

func TestFailedStartIsNotReportedAsKill(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m)
	_, err := m.Stop(t.Context(), store.KindWorkspace, w.ID)
	check(t, err)
	without := filepath.Join(t.TempDir(), "pyro") // a pyro program whose guest program is missing
	check(t, os.WriteFile(without, []byte("#!/bin/sh\nPYRO_GUEST=/nonexistent exec "+os.Args[0]+" \"$@\"\n"), 0o700))
	m.Program = func() (string, error) { return without, nil }
	_, err = m.Start(t.Context(), store.KindWorkspace, w.ID, nil)
	wantKind(t, "a start without a guest", err, fault.Unavailable)
	now, err := m.Get(t.Context(), store.KindWorkspace, w.ID)
	if err != nil || now.State != Stopped || strings.Contains(now.StateReason, "killed") {
		t.Errorf("%s because %s: %v", now.State, now.StateReason, err)
	}
}

func TestConcurrentManagers(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	other := managerOf(t, m.Dirs)
	w := create(t, m, "a", "alpha")
	done := make(chan error)
	both := []*Manager{m, other}
	allowed := map[fault.Kind]bool{fault.Precondition: true, fault.Unavailable: true, fault.Exists: true}
	for i := range 6 {
		go func() {
			m := both[i%2]
			var err error
			switch i / 2 {
			case 0:
				_, err = m.Reset(context.Background(), w.ID, "", nil)
			case 1:
				_, _, err = m.Exec(context.Background(), store.KindWorkspace, w.ID, program.Command{Argv: []string{"sh", "-c", "echo x > b"}}, program.Attach{}, nil)
			case 2:
				_, err = m.CreateSnapshot(context.Background(), w.ID, "same", false)
			}
			if err != nil && allowed[fault.KindOf(err)] {
				err = nil
			}
			done <- err
		}()
	}
	for range 6 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantState(t, other, w.ID, Started, "")
	wantFile(t, other, w.ID, "a", "alpha")
	if got, err := other.Get(t.Context(), store.KindWorkspace, w.ID); err != nil || got.ResetCount != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := m.Snapshots(t.Context(), w.ID); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	for i := range 4 {
		go func() { done <- both[i%2].Delete(context.Background(), store.KindWorkspace, w.ID) }()
	}
	deleted := 0
	for range 4 {
		if err := <-done; err == nil {
			deleted++
		} else if fault.KindOf(err) != fault.NotFound {
			t.Error(err)
		}
	}
	if deleted == 0 {
		t.Error("got 0 successful deletes")
	}
}

func TestNamesAndLabelsAreUpdated(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	spec := onHost()
	spec.Kind = store.KindVM // Create does not start it
	spec.Name, spec.Labels = "one", map[string]string{"a": "1", "b": "2"}
	vm, err := m.Create(t.Context(), spec)
	check(t, err)
	_, err = m.Update(t.Context(), vm.ID, Update{ClearName: true})
	wantKind(t, "a machine", err, fault.NotFound)
	record := vm.Workspace
	record.ID, record.Kind = "ws-1", store.KindWorkspace
	check(t, m.Store.AddWorkspace(t.Context(), record))
	name := "zwei ü"
	got, err := m.Update(t.Context(), "ws-1", Update{Name: &name, Labels: map[string]string{"c": "", "a": "9"}, ClearLabels: []string{"b", "none"}})
	if err != nil || got.Name != name || !maps.Equal(got.Labels, map[string]string{"a": "9", "c": ""}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = m.Update(t.Context(), "ws-1", Update{ClearName: true}); err != nil || got.Name != "" || len(got.Labels) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	many := map[string]string{}
	for i := range MaxLabels - 1 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	wrong := map[string]Update{
		"nothing":             {},
		"set and cleared":     {Name: &name, ClearName: true},
		"label both":          {Labels: map[string]string{"a": "1"}, ClearLabels: []string{"a"}},
		"too many with those": {Labels: many},
	}
	for what, text := range map[string]string{"empty": "", "blank": " ", "two lines": "a\nb", "escapes": "\x1b[31m", "long": strings.Repeat("ü", MaxName+1), "no UTF-8": "\xff"} {
		wrong["name: "+what] = Update{Name: &text}
		if what != "blank" && what != "long" {
			wrong["key: "+what] = Update{Labels: map[string]string{text: "v"}}
		}
		if what != "empty" && what != "blank" && what != "long" {
			wrong["value: "+what] = Update{Labels: map[string]string{"k": text}}
		}
	}
	wrong["key: with ="], wrong["value: long"] = Update{Labels: map[string]string{"a=b": "v"}}, Update{Labels: map[string]string{"k": strings.Repeat("x", MaxLabelValue+1)}}
	for what, u := range wrong {
		_, err := m.Update(t.Context(), "ws-1", u)
		wantKind(t, what, err, fault.Invalid)
	}
	if now, _ := m.Get(t.Context(), store.KindWorkspace, "ws-1"); len(now.Labels) != 2 {
		t.Errorf("%+v", now.Labels)
	}
}

// TestReapChecksAgainUnderLock checks that Reap reads the record again after it has waited for the
// lock. Meanwhile another process starts the machine, or extends its time to live.
func TestReapChecksAgainUnderLock(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	spec := onHost()
	spec.Kind, spec.TTLSeconds = store.KindVM, 600
	w, err := m.Create(t.Context(), spec)
	check(t, err)
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name string
		use  func() error
	}{
		{"started", func() error { return m.start(t.Context(), w.ID, nil) }},
		{"used", func() error { return m.Store.Active(t.Context(), w.ID, later, later.Add(time.Hour)) }},
	} {
		lock, err := m.lock(t.Context(), w.ID)
		check(t, err)
		type result struct {
			ids []string
			err error
		}
		done := make(chan result, 1)
		go func() {
			ids, err := m.Reap(t.Context(), later)
			done <- result{ids, err}
		}()
		time.Sleep(300 * time.Millisecond) // by now Reap has read the record and waits
		check(t, c.use())
		lock.Release()
		if r := <-done; r.err != nil || len(r.ids) != 0 {
			t.Errorf("%s: %v, %v", c.name, r.ids, r.err)
		}
		if _, err := m.Get(t.Context(), store.KindVM, w.ID); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		check(t, errors.Join(m.stop(t.Context(), w.ID, "enough", false), m.folder(w.ID).AwaitEnd(t.Context())))
	}
	if ids, err := m.Reap(t.Context(), later.Add(2*time.Hour)); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
}
