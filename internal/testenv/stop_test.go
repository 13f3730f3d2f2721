package testenv

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestStopProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	if !running(pid) {
		t.Error("a process that works counts as stopped")
	}
	StopProcess(t, pid)
	var status syscall.WaitStatus
	if got, err := syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil); got != pid || err != nil || !status.Stopped() {
		t.Errorf("got %d, %v, %v", got, status, err)
	}
}
