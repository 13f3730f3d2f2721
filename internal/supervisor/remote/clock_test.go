package remote

import (
	"os/exec"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestProcessorTime reads the clock of a process that first runs, then is stopped, then has ended.
func TestProcessorTime(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	testenv.Eventually(t, "the processor time of a loop is counted", func() bool {
		used, ok := ProcessorTime(pid)
		return ok && used > 50*time.Millisecond
	})
	testenv.StopProcess(t, pid)
	// The kernel reports a process as stopped just before the process leaves its processor.
	time.Sleep(50 * time.Millisecond)
	before, _ := ProcessorTime(pid)
	time.Sleep(20 * time.Millisecond)
	if after, ok := ProcessorTime(pid); !ok || after-before > time.Millisecond {
		t.Errorf("processor time of a stopped process: got %v, then %v", before, after)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, none := range []int{pid, 0, -1} {
		if used, ok := ProcessorTime(none); ok {
			t.Errorf("process %d, which is gone, has used %v", none, used)
		}
	}
}
