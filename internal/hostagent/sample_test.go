package hostagent

import (
	"context"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// stopped starts a busy process and stops it. Its processor time does not increase until SIGCONT.
func stopped(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "kill -STOP $$; while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}
	return cmd
}

// watched returns a sampler that the test controls. It also returns a function that takes a sample
// and waits until the sample is added.
func watched(t *testing.T, f *fakes, h *manualClock) (w *sampler, sample func()) {
	t.Helper()
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	s := a.all()[0]
	s.stopSampling()
	s.metrics.flush()
	w = a.newSampler(s)
	t.Cleanup(w.stop)
	return w, func() {
		h.pass(sampleEvery)
		w.sample()
		w.busy <- struct{}{} // wait until the sample is added
		w.release()
	}
}

// TestIdleMachineIsNotQueried samples a machine whose processes are first stopped, then busy, then
// killed.
func TestIdleMachineIsNotQueried(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1000, 0)}
	process, supervisor := stopped(t), stopped(t)
	asked := 0
	f.usage = func(context.Context) (workspace.Usage, error) {
		asked++
		used, _ := remote.ProcessorTime(process.Process.Pid)
		return workspace.Usage{CPU: used, MemBytes: int64(asked), DiskBytes: 7, Processes: []int{process.Process.Pid}, Supervisor: supervisor.Process.Pid}, nil
	}
	w, sample := watched(t, f, h)
	for range 1000 {
		sample()
	}
	points := w.of.metrics.get(tier10m)
	if asked != 1 || len(points) != 999 {
		t.Errorf("1000 samples: got %d requests and %d points", asked, len(points))
	}
	for i, p := range points {
		if p.CPU != 0 || p.MemBytes != 1 || p.DiskBytes != 7 || i > 1 && p.Unix-points[i-2].Unix != 1 {
			t.Fatalf("point %d is %+v", i, p)
		}
	}
	works := func(cmd *exec.Cmd, d time.Duration) {
		t.Helper()
		before, _ := remote.ProcessorTime(cmd.Process.Pid)
		cmd.Process.Signal(syscall.SIGCONT)
		for used := before; used < before+d; used, _ = remote.ProcessorTime(cmd.Process.Pid) {
			time.Sleep(time.Millisecond)
		}
		testenv.StopProcess(t, cmd.Process.Pid)
	}
	works(process, 50*time.Millisecond)
	sample()
	points = w.of.metrics.get(tier10m)
	if last := points[len(points)-1]; asked != 2 || last.MemBytes != 2 || last.CPU < 10 {
		t.Errorf("after activity: got %d requests: %+v", asked, last)
	}
	sample()
	points = w.of.metrics.get(tier10m)
	if last := points[len(points)-1]; asked != 2 || last.CPU != 0 {
		t.Errorf("after activity: got %d samples of usage: %+v", asked, last)
	}
	works(supervisor, 10*time.Millisecond) // a snapshot makes the supervisor work, and may change the disks
	for range int(queryWithin/sampleEvery) - 2 {
		sample()
	}
	if asked != 2 {
		t.Errorf("before %v: got %d requests", queryWithin, asked)
	}
	for range 2 {
		sample()
	}
	if asked != 3 {
		t.Errorf("after %v: got %d requests", queryWithin, asked)
	}
	process.Process.Kill()
	process.Wait()
	sample()
	if asked != 4 {
		t.Errorf("after the end of a process: got %d samples of usage, want 4", asked)
	}
}

// TestUnknownProcessesAreQueried samples a machine whose supervisor is too old to report its
// processes. Each sample must query the machine.
func TestUnknownProcessesAreQueried(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1000, 0)}
	asked := 0
	f.usage = func(context.Context) (workspace.Usage, error) {
		asked++
		return workspace.Usage{MemBytes: 5}, nil
	}
	w, sample := watched(t, f, h)
	for range 10 {
		sample()
	}
	if points := w.of.metrics.get(tier10m); asked != 10 || len(points) != 9 {
		t.Errorf("10 samples: got %d requests and %d points", asked, len(points))
	}
}

// TestHungMachineDoesNotDelayOthers checks that a machine that does not respond does not delay the
// samples of another machine.
func TestHungMachineDoesNotDelayOthers(t *testing.T) {
	f := newFakes()
	var calls atomic.Int64
	f.usage = func(ctx context.Context) (workspace.Usage, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			return workspace.Usage{}, context.Cause(ctx)
		}
		return workspace.Usage{MemBytes: 5}, nil
	}
	a := open(t, t.TempDir(), f, Limits{})
	for _, id := range []string{"x", "y"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	testenv.Eventually(t, "two samples are taken", func() bool { return len(a.all()[0].metrics.get(tier10m))+len(a.all()[1].metrics.get(tier10m)) >= 2 })
	for _, id := range []string{"x", "y"} { // both sandboxes can be destroyed
		if _, err := a.DestroySandbox(t.Context(), connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: id})); err != nil {
			t.Error(err)
		}
	}
}
