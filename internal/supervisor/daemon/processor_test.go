package daemon

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestProcessorTime checks that the processor time of all descendants is counted, no matter which
// thread started them.
func TestProcessorTime(t *testing.T) {
	own := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	timeOf := func(pids ...int) time.Duration {
		used, _ := processorTime(pids)
		return used
	}
	before, mine := timeOf(os.Getpid()), own()
	if before <= 0 {
		t.Fatal("it has used nothing")
	}
	below := func() time.Duration { return timeOf(os.Getpid()) - before - (own() - mine) }
	started := make(chan *exec.Cmd)
	for range 3 {
		go func() {
			// The thread ends with this goroutine, unless it is the main thread. Its child
			// processes then belong to another thread.
			runtime.LockOSThread()
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
	testenv.Eventually(t, "the processor time of the descendants is counted", func() bool { return below() >= enough })
	for _, cmd := range all {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	}
	if gone, family := processorTime([]int{all[0].Process.Pid}); gone != 0 || len(family) != 0 {
		t.Errorf("one that is gone has used %v", gone)
	}
}

// beside is a machine with several processes that are not children of each other.
type beside struct {
	machine.Machine
	pids []int
}

func (b beside) PID() int    { return b.pids[0] }
func (b beside) PIDs() []int { return b.pids }

// TestProcessorTimeOfAllProcesses checks that all processes of a machine are counted. With gVisor,
// the gofer process is not a child of the sentry process.
func TestProcessorTimeOfAllProcesses(t *testing.T) {
	var m beside
	var each time.Duration
	for range 2 {
		cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; kill -STOP $$")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		var status unix.WaitStatus
		if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("it did not stop: %v, %v", status, err)
		}
		used, _ := processorTime([]int{cmd.Process.Pid})
		if used <= 0 {
			t.Fatal("it has used nothing")
		}
		each += used
		m.pids = append(m.pids, cmd.Process.Pid)
	}
	if got, family := processorTime(processesOf(m)); got != each || len(family) != len(m.pids) {
		t.Errorf("got processor time %v for each process, want it for both: %v of %v", each, got, family)
	}
	if got := processesOf(struct{ machine.Machine }{m}); !slices.Equal(got, m.pids[:1]) {
		t.Errorf("machine without a list of processes: got %v, want PID %d", got, m.pids[0])
	}
}

// TestStartedBy checks that all children of a process are found, even if the list of their PIDs is
// longer than a page.
func TestStartedBy(t *testing.T) {
	const many = 1000
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(many)+" ]; do sleep 1000 & i=$((i+1)); done; echo; wait")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	found := startedBy("/proc/"+strconv.Itoa(cmd.Process.Pid), make([]byte, maxFamily*8))
	for _, pid := range found {
		if group, err := unix.Getpgid(pid); err != nil || group != cmd.Process.Pid {
			t.Fatalf("it has not started %d: %v", pid, err)
		}
	}
	if len(found) != many {
		t.Errorf("%d were found, not %d", len(found), many)
	}
}

func TestMemoryUsed(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    400 kB\nBuffers: 1 kB\n": 600 << 10,
		"MemTotal:       1000 kB\nMemFree:         300 kB\nBuffers: 1 kB\n":                          700 << 10, // the format of kernels before 3.14
		"MemTotal:       1000 kB\nMemFree:         3":                                                997 << 10, // incomplete
		"MemTotal:\nMemFree: 5 kB": 0,
		"":                         0,
	} {
		if got := memoryUsed([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
