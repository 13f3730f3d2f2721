package flock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestExclusiveAndShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, err := Try(path, Shared)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Try(path, Shared)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path, Exclusive); !errors.Is(err, ErrHeld) {
		t.Fatalf("got %v, want ErrHeld", err)
	}
	a.Release()
	b.Release()
	c, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	c.Release()
}

// TestReleaseWhileProcessesStart checks that a released lock is free immediately. Between fork and
// exec, a child has copies of all descriptors of its parent.
func TestReleaseWhileProcessesStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer starters.Wait()
	defer cancel()
	for began := time.Now(); time.Since(began) < time.Second; {
		lock, err := Try(path, Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
	}
}

func TestTakeWaitsAndCanBeCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	waited := false
	if _, err := Take(ctx, path, Exclusive, func() { waited = true }); !errors.Is(err, context.DeadlineExceeded) || !waited {
		t.Fatalf("got %v, waited %v", err, waited)
	}
	time.AfterFunc(10*time.Millisecond, held.Release)
	got, err := Take(context.Background(), path, Exclusive, nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Release()
}

func TestLockIsOnCurrentFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	old, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	now, err := Try(path, Exclusive)
	if err != nil {
		t.Fatalf("the old file's lock must not hold the new one: %v", err)
	}
	now.Release()
	old.Release()
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	l, err := TryFolder(dir, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if _, err := TryFolder(dir, Shared); !errors.Is(err, ErrHeld) {
		t.Fatalf("got %v", err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := TryFolder(missing, Shared); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}

func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := Holder(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	shared, err := Try(path, Shared)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Holder(path); !errors.Is(err, ErrNoHolder) {
		t.Errorf("of a shared one: %d, %v", pid, err)
	}
	shared.Release()
	held, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Holder(path); pid != os.Getpid() || err != nil {
		t.Errorf("%d, %v; it is %d", pid, err, os.Getpid())
	}
	other := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, err := Holder(other); !errors.Is(err, ErrNoHolder) {
		t.Errorf("another file of the same name: got %d, %v", pid, err)
	}
	held.Release()
	if pid, err := Holder(path); !errors.Is(err, ErrNoHolder) {
		t.Errorf("of one that was released: %d, %v", pid, err)
	}
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if used, err := InUse(path); used || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v, %v", used, err)
	}
	for _, mode := range []Mode{Shared, Exclusive} {
		lock, err := Try(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		if used, err := InUse(path); !used || err != nil {
			t.Errorf("locked: %v, %v", used, err)
		}
		lock.Release()
		if used, err := InUse(path); used || err != nil {
			t.Errorf("released: %v, %v", used, err)
		}
	}
}

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := Held(path); held || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %t, %v", held, err)
	}
	lock, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); !held || err != nil {
		t.Errorf("held: %t, %v", held, err)
	}
	lock.Release()
	if held, err := Held(path); held || err != nil {
		t.Errorf("released: %t, %v", held, err)
	}
}
