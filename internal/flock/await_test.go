package flock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAwaitRelease(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	for _, missing := range []string{path, filepath.Join(dir, "no", "lock")} {
		if err := AwaitRelease(t.Context(), missing, nil); err != nil {
			t.Errorf("%s: %v", missing, err)
		}
	}
	lock, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, enough)
	defer cancel()
	if err := AwaitRelease(ctx, path, nil); err != enough {
		t.Errorf("held: %v", err)
	}
	if err := AwaitRelease(ctx, path, nil); err != enough {
		t.Errorf("held, after the end of the context: %v", err)
	}
	// Held locks the file briefly. This causes events but must not end the wait.
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if err := AwaitRelease(t.Context(), path, nil); err != nil {
				t.Error(err)
			}
			if held, err := Held(path); held || err != nil {
				t.Errorf("held %t, %v", held, err)
			}
		})
	}
	for range 100 {
		if held, err := Held(path); !held || err != nil {
			t.Fatalf("held %t, %v", held, err)
		}
		time.Sleep(time.Millisecond)
	}
	lock.Release()
	waiting.Wait()
}

func TestAwaitReleaseUntilEnough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := Try(path, Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	end := filepath.Join(filepath.Dir(path), "end")
	asked := 0
	done := make(chan error, 1)
	go func() {
		done <- AwaitRelease(t.Context(), path, func() bool {
			asked++
			_, err := os.Stat(end)
			return err == nil
		})
	}()
	time.Sleep(500 * time.Millisecond)
	if err := errors.Join(os.WriteFile(end+".part", nil, 0o600), os.Rename(end+".part", end)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || asked > 20 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// TestAwaitReleaseOfRemovedFile checks that the wait ends when the file is removed. If a new,
// locked file has replaced the removed one, releasing the lock of the removed file must not end the
// wait.
func TestAwaitReleaseOfRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var locks []*Lock
	for range 2 {
		lock, err := Try(path, Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, lock)
		defer lock.Release()
		if len(locks) == 1 {
			os.Remove(path)
		}
	}
	done := make(chan error, 1)
	go func() { done <- AwaitRelease(t.Context(), path, nil) }()
	locks[0].Release()
	select {
	case err := <-done:
		t.Fatalf("it returned: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	os.Remove(path)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAwaitReleaseByDeath waits until a process that has the lock is killed.
func TestAwaitReleaseByDeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command("flock", path, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	for held := false; !held; held, _ = Held(path) {
		time.Sleep(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { done <- AwaitRelease(t.Context(), path, nil) }()
	// The process sleep has inherited the lock, so killing flock alone does not release it.
	children, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
	cmd.Process.Kill()
	cmd.Wait()
	exec.Command("kill", strings.Fields(string(children))...).Run()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
