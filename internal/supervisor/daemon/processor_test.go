package daemon

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProcessorTime counts what is used below a process, whichever of its threads started that.
func TestProcessorTime(t *testing.T) {
	own := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, mine := processorTime(os.Getpid()), own()
	if before <= 0 {
		t.Fatal("it has used nothing")
	}
	below := func() time.Duration { return processorTime(os.Getpid()) - before - (own() - mine) }
	started := make(chan *exec.Cmd)
	for range 3 {
		go func() {
			runtime.LockOSThread() // and the thread ends with this, unless it is the first: what it started is another's then
			cmd := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & wait")
			cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				cmd = nil
			}
			started <- cmd
		}()
	}
	var all []*exec.Cmd
	for range 3 {
		if cmd := <-started; cmd != nil {
			defer unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			all = append(all, cmd)
		}
	}
	const enough = 300 * time.Millisecond
	for deadline := time.Now().Add(time.Minute); below() < enough; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("what is below it has used %v", below())
		}
	}
	for _, cmd := range all {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	}
	if gone := processorTime(all[0].Process.Pid); gone != 0 {
		t.Errorf("one that is gone has used %v", gone)
	}
}

func TestMemoryUsed(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    400 kB\nBuffers: 1 kB\n": 600 << 10,
		"MemTotal:       1000 kB\nMemFree:         300 kB\nBuffers: 1 kB\n":                          700 << 10, // as kernels before 3.14 tell it
		"MemTotal:       1000 kB\nMemFree:         3":                                                997 << 10, // cut
		"MemTotal:\nMemFree: 5 kB": 0,
		"":                         0,
	} {
		if got := memoryUsed([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
