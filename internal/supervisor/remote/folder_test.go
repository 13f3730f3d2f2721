package remote

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestRunningIsLock(t *testing.T) {
	f := Folder(t.TempDir())
	if f.Running() {
		t.Error("it is running before its start")
	}
	if entries, _ := os.ReadDir(string(f)); len(entries) != 0 {
		t.Errorf("looking left %v", entries)
	}
	lock, err := f.Take()
	check(t, err)
	if !f.Running() {
		t.Error("it is not running")
	}
	if again, err := f.Take(); fault.KindOf(err) != fault.Precondition || again != nil {
		t.Errorf("a second one: %v", err)
	}
	lock.Release()
	if f.Running() {
		t.Error("it still runs")
	}
	if lock, err = f.Take(); err != nil {
		t.Error(err)
	}
	lock.Release()
	if gone := Folder(filepath.Join(string(f), "none")); gone.Running() {
		t.Error("a missing folder has a running machine")
	} else if _, err := gone.Take(); err == nil {
		t.Error("took the lock of a missing folder")
	}
}

// TestRunningDoesNotBlockStart checks that supervisors can start while other
// processes constantly call Running, as lists of workspaces do.
func TestRunningDoesNotBlockStart(t *testing.T) {
	f := Folder(t.TempDir())
	lock, err := f.Take()
	check(t, err)
	lock.Release()
	done := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f.Running()
				}
			}
		})
	}
	started, refused := 0, 0
	for began := time.Now(); started < 100 && time.Since(began) < testenv.Patience; time.Sleep(time.Millisecond) {
		asked := time.Now()
		lock, err := f.Take()
		switch {
		case err == nil:
			lock.Release()
			started++
		case time.Since(asked) < time.Second: // a stalled Running can hold the lock for longer
			refused++
		}
	}
	close(done)
	asking.Wait()
	if started < 100 || refused > 0 {
		t.Errorf("%d supervisors started, %d failed at once because another runs", started, refused)
	}
}

func TestLastEnd(t *testing.T) {
	f := Folder(t.TempDir())
	if e := f.LastEnd(); !strings.Contains(e.Reason, "killed") {
		t.Errorf("%+v", e)
	}
	want := End{Reason: "enough", Expired: true, At: time.Now().UTC()}
	check(t, f.WriteEnd(want))
	if got := f.LastEnd(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	path := filepath.Join(string(f), endFile)
	for name, text := range map[string]string{"nothing": "", "no JSON": "{", "another JSON": `[1]`, "too much": `{"reason":"` + strings.Repeat("x", 1<<20) + `"}`} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if e := f.LastEnd(); len(e.Reason) > 100 || e.Reason == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	check(t, f.WriteEnd(End{Reason: "\x1b[31mred\x7f"}))
	if e := f.LastEnd(); strings.ContainsAny(e.Reason, "\x1b\x7f") {
		t.Errorf("%q", e.Reason)
	}
	check(t, errors.Join(f.Clear(), f.Clear()))
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestAwaitingTheEnd(t *testing.T) {
	f := Folder(t.TempDir())
	check(t, f.AwaitEnd(t.Context()))
	lock, err := f.Take()
	check(t, err)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, enough)
	defer cancel()
	if err := f.AwaitEnd(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(20*time.Millisecond, lock.Release)
	check(t, f.AwaitEnd(t.Context()))
}

// TestEndedMachineIsNotAlive checks that Alive returns false while the supervisor of an
// ended machine still cleans up.
func TestEndedMachineIsNotAlive(t *testing.T) {
	f := Folder(t.TempDir())
	if f.Alive() {
		t.Error("it is alive before its start")
	}
	lock, err := f.Take()
	check(t, err)
	defer lock.Release()
	if !f.Alive() {
		t.Error("it is being started, and not alive")
	}
	cmd := exec.Command("sleep", "300")
	check(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	check(t, f.WriteProcesses([]int{cmd.Process.Pid}))
	if !f.Alive() {
		t.Error("its process runs, but it is not alive")
	}
	check(t, cmd.Process.Kill())
	testenv.Eventually(t, "the process has ended", func() bool { return !f.Alive() })
	if !f.Running() {
		t.Error("got Running false, but its supervisor still runs")
	}
}

// TestAwaitingProcesses checks that AwaitEnd waits for a process of the machine that outlives the
// supervisor.
func TestAwaitingProcesses(t *testing.T) {
	f := Folder(t.TempDir())
	lock, err := f.Take()
	check(t, err)
	cmd := exec.Command("sleep", "1000")
	check(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	check(t, f.WriteProcesses([]int{cmd.Process.Pid}))
	lock.Release()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, enough)
	defer cancel()
	if err := f.AwaitEnd(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { cmd.Process.Kill() })
	check(t, f.AwaitEnd(t.Context()))
	<-ended
	check(t, f.AwaitEnd(t.Context()))
}

// TestProcessesOfOtherBoot checks that a process with the PID and the start time of a machine's
// process is not mistaken for it after a reboot.
func TestProcessesOfOtherBoot(t *testing.T) {
	f := Folder(t.TempDir())
	check(t, f.WriteProcesses([]int{os.Getpid()}))
	path := filepath.Join(string(f), processesFile)
	written, err := os.ReadFile(path)
	check(t, err)
	if alive := f.processes(); len(alive) != 1 {
		t.Errorf("this boot: %v", alive)
	}
	fields := strings.Fields(string(written))
	check(t, os.WriteFile(path, []byte(strings.Join(fields[:2], " ")+"\n"), 0o600))
	if alive := f.processes(); len(alive) != 1 {
		t.Errorf("the record of an older version: %v", alive)
	}
	check(t, os.WriteFile(path, []byte(strings.Join(fields[:2], " ")+" 00000000-0000-4000-8000-000000000000\n"), 0o600))
	if alive := f.processes(); alive != nil {
		t.Errorf("another boot: %v", alive)
	}
}
