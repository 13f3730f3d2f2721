package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// StopProcess sends SIGSTOP to a process, and waits until all its threads have stopped. On a busy
// host, they can still answer requests for some time after the signal.
func StopProcess(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(Patience); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// running reports whether a thread of a process has neither stopped nor ended.
func running(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, _ := os.ReadFile(path)
		// The name of the program comes before the state, and can contain any characters.
		_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if found && !bytes.ContainsAny(state[:1], "TZX") {
			return true
		}
	}
	return false
}
