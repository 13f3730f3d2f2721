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
)

// stopped starts a process that works, and stops it: its clock stands still until it is continued.
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

// watched returns a watcher that nobody else drives, and a function that takes a sample and waits for it.
func watched(t *testing.T, f *fakes, h *hand) (w *watcher, sample func()) {
	t.Helper()
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	s := a.all()[0]
	s.unwatch()
	s.metrics.flush()
	ctx, cancel := context.WithCancel(t.Context())
	w = &watcher{agent: a, of: s, ctx: ctx, cancel: cancel}
	t.Cleanup(func() { cancel(); w.busy.Lock(); w.drop(); w.busy.Unlock() })
	return w, func() {
		h.pass(sampleEvery)
		w.sample()
		w.busy.Lock() // waits for the sample
		defer w.busy.Unlock()
	}
}

// TestAnIdleMachineIsNotAsked samples a machine whose processes stand still, then work, then are gone.
func TestAnIdleMachineIsNotAsked(t *testing.T) {
	f, h := newFakes(), &hand{now: time.Unix(1000, 0)}
	process, supervisor := stopped(t), stopped(t)
	asked := 0
	f.usage = func(context.Context) (remote.Usage, error) {
		asked++
		used, _ := remote.ProcessorTime(process.Process.Pid)
		return remote.Usage{CPU: used, MemBytes: int64(asked), DiskBytes: 7, Processes: []int{process.Process.Pid}, Supervisor: supervisor.Process.Pid}, nil
	}
	w, sample := watched(t, f, h)
	for range 1000 {
		sample()
	}
	points := w.of.metrics.get(tier10m)
	if asked != 1 || len(points) != 999 {
		t.Errorf("in 1000 samples it was asked %d times, and has %d points", asked, len(points))
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
		cmd.Process.Signal(syscall.SIGSTOP)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
			t.Fatal(err)
		}
	}
	works(process, 50*time.Millisecond)
	sample()
	points = w.of.metrics.get(tier10m)
	if last := points[len(points)-1]; asked != 2 || last.MemBytes != 2 || last.CPU < 10 {
		t.Errorf("after it worked it was asked %d times: %+v", asked, last)
	}
	sample()
	points = w.of.metrics.get(tier10m)
	if last := points[len(points)-1]; asked != 2 || last.CPU != 0 {
		t.Errorf("when it had worked it was asked %d times: %+v", asked, last)
	}
	works(supervisor, 10*time.Millisecond) // a snapshot, say: the disks may be others
	for range int(askWithin/sampleEvery) - 2 {
		sample()
	}
	if asked != 2 {
		t.Errorf("before %v it was asked %d times", askWithin, asked)
	}
	for range 2 {
		sample()
	}
	if asked != 3 {
		t.Errorf("after %v it was asked %d times", askWithin, asked)
	}
	process.Process.Kill()
	process.Wait()
	sample()
	if asked != 4 {
		t.Errorf("after a process had ended it was asked %d times", asked)
	}
}

// TestAMachineThatTellsNoProcessesIsAsked samples one whose supervisor is an earlier one.
func TestAMachineThatTellsNoProcessesIsAsked(t *testing.T) {
	f, h := newFakes(), &hand{now: time.Unix(1000, 0)}
	asked := 0
	f.usage = func(context.Context) (remote.Usage, error) {
		asked++
		return remote.Usage{MemBytes: 5}, nil
	}
	w, sample := watched(t, f, h)
	for range 10 {
		sample()
	}
	if points := w.of.metrics.get(tier10m); asked != 10 || len(points) != 9 {
		t.Errorf("in 10 samples it was asked %d times, and has %d points", asked, len(points))
	}
}

// TestAMachineThatDoesNotAnswerHoldsUpNoOther samples two, of which one does not answer.
func TestAMachineThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	f := newFakes()
	var calls atomic.Int64
	f.usage = func(ctx context.Context) (remote.Usage, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			return remote.Usage{}, context.Cause(ctx)
		}
		return remote.Usage{MemBytes: 5}, nil
	}
	a := open(t, t.TempDir(), f, Limits{})
	for _, id := range []string{"x", "y"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	for deadline := time.Now().Add(time.Minute); len(a.all()[0].metrics.get(tier10m))+len(a.all()[1].metrics.get(tier10m)) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no samples come")
		}
	}
	for _, id := range []string{"x", "y"} { // and both can be destroyed
		if _, err := a.DestroySandbox(t.Context(), connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: id})); err != nil {
			t.Error(err)
		}
	}
}
