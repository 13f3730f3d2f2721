package program

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestCatchIgnored checks that programs of a process get default signals, although the process was
// started with ignored signals.
func TestCatchIgnored(t *testing.T) {
	if os.Getenv("PYRO_PROGRAM_TEST_IGNORES") != "" {
		CatchIgnored()
		if list := NotIgnored(syscall.SIGHUP, syscall.SIGTERM, syscall.SIGTSTP); len(list) != 1 || list[0] != syscall.SIGTERM {
			t.Errorf("%v", list)
		}
		syscall.Kill(os.Getpid(), syscall.SIGHUP) // has no effect
		out, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
		var ignored uint64
		if _, failed := fmt.Sscanf(string(out), "SigIgn:\t%x", &ignored); failed != nil || err != nil || ignored&(1<<31-1) != 0 { // the C library has signals from 32
			t.Errorf("%q, %v", out, err)
		}
		return
	}
	cmd := exec.Command("env", "--ignore-signal=HUP,INT,TSTP", os.Args[0], "-test.run=^TestCatchIgnored$", "-test.v")
	cmd.Env = append(os.Environ(), "PYRO_PROGRAM_TEST_IGNORES=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}
