package host

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
	all, err := processes()
	if err != nil || all[pid].parent != os.Getpid() {
		t.Fatalf("%+v, %v", all[pid], err)
	}
	if !marked(pid, variable) || marked(pid, markName+"=0123456789abcde") || marked(os.Getpid(), variable) {
		t.Error("a mark is what the whole variable says, of this process")
	}
}

// TestKillAll kills what is wanted, and nothing else, where orphans come back to the top.
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
		if err := killAll(os.Getpid(), func(_ table, pid int) bool { return marked(pid, variable) }); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		// Its children are ours now.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				return
			}
		}
	}
	const first, second = markName + "=first", markName + "=second"
	victim, other := start(first), start(second)
	time.Sleep(50 * time.Millisecond) // they have started their own
	end(victim, first)
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	if all[other.Process.Pid].parent != os.Getpid() {
		t.Error("the other one was killed too")
	}
	end(other, second)
	all, _ = processes()
	for pid := range all {
		if marked(pid, first) || marked(pid, second) {
			t.Errorf("%d is left", pid)
		}
	}
}
