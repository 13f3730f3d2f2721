package proctree

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestProcessesAndMarks(t *testing.T) {
	const variable = markName + "=0123456789abcdef"
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), variable)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	all, err := Read()
	if err != nil || all[pid].Parent != os.Getpid() {
		t.Fatalf("%+v, %v", all[pid], err)
	}
	if !HasVariable(pid, variable) || HasVariable(pid, markName+"=0123456789abcde") || HasVariable(os.Getpid(), variable) {
		t.Error("HasVariable must compare the whole variable, of this process")
	}
}

// TestKillAll makes orphans become children of this process. It checks that KillAll kills only
// those that match.
func TestKillAll(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	start := func(variable string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "setsid sleep 60 & sleep 60")
		cmd.Env = append(os.Environ(), variable)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	end := func(cmd *exec.Cmd, variable string) {
		t.Helper()
		if err := KillAll(os.Getpid(), func(_ Table, pid int) bool { return HasVariable(pid, variable) }); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		// Reap the children of the killed process, which are now children of this process.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				return
			}
		}
	}
	const first, second = markName + "=first", markName + "=second"
	victim, other := start(first), start(second)
	time.Sleep(50 * time.Millisecond) // lets the processes start their own children
	end(victim, first)
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if all[other.Process.Pid].Parent != os.Getpid() {
		t.Error("the other process was killed too")
	}
	end(other, second)
	all, _ = Read()
	for pid := range all {
		if HasVariable(pid, first) || HasVariable(pid, second) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func TestDescends(t *testing.T) {
	all := Table{2: {Parent: 1}, 3: {Parent: 2}, 4: {Parent: 3}, 7: {Parent: 8}, 8: {Parent: 7}, 9: {Parent: 4}}
	for _, c := range []struct {
		pid, from int
		want      bool
	}{{4, 2, true}, {9, 2, true}, {3, 1, true}, {2, 3, false}, {2, 2, false}, {7, 2, false}, {5, 2, false}, {9, 8, false}} {
		if all.descends(c.pid, c.from) != c.want {
			t.Errorf("%+v", c)
		}
	}
	if d := all.depth(9); d != 4 {
		t.Errorf("depth %d", d)
	}
	if d := all.depth(7); d != maxDepth {
		t.Errorf("depth of a loop %d", d)
	}
}
