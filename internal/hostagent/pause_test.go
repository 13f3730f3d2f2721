package hostagent

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

func pause(t *testing.T, a *Agent, id string) error {
	_, err := a.PauseSandbox(t.Context(), connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: id}))
	return err
}

func resume(t *testing.T, a *Agent, m *pb.ResumeSandboxRequest) error {
	r, err := a.ResumeSandbox(t.Context(), connect.NewRequest(m))
	if err == nil && (r.Msg.Status != statusRunning || r.Msg.SandboxId != m.SandboxId || r.Msg.Metadata["workspace_id"] == "") {
		t.Errorf("resumed: %v", r.Msg)
	}
	return err
}

func ping(t *testing.T, a *Agent, id string) error {
	_, err := a.PingSandbox(t.Context(), connect.NewRequest(&pb.PingSandboxRequest{SandboxId: id}))
	return err
}

func TestPauseAndResume(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{MemoryMB: 512})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60, DefaultUser: "me"})
	for range 2 {
		if err := pause(t, a, "x"); err != nil {
			t.Fatal(err)
		}
	}
	exec := &pb.ExecRequest{SandboxId: "x", Cmd: "true"}
	if _, err := a.Exec(t.Context(), connect.NewRequest(exec)); fault.KindOf(err) != fault.Precondition || fault.HintOf(err) != "call ResumeSandbox" {
		t.Errorf("exec: %v, %s", err, fault.HintOf(err))
	}
	if err := ping(t, a, "x"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("ping: %v", err)
	}
	a.Close()
	a = open(t, folder, f, Limits{MemoryMB: 512})
	if all := list(t, a); len(all) != 1 || all[0].Status != statusPaused || all[0].TimeoutSec != 60 {
		t.Fatalf("after a restart: %v", all)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "other"}) // fits into the memory that the pause of the first sandbox freed
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}); fault.KindOf(err) != fault.Exhausted || list(t, a)[0].Status != statusPaused {
		t.Errorf("no capacity: got %v, %v", err, list(t, a))
	}
	if err := a.destroy(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 7, DefaultEnv: map[string]string{"A": "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	if r := a.all()[0].record(); r.TimeoutSec != 7 || r.DefaultUser != "me" || r.DefaultEnv["A"] != "b" {
		t.Errorf("it is %+v", r)
	}
	if err := ping(t, a, "x"); err != nil {
		t.Error(err)
	}
	if err := pause(t, a, "none"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: -1}); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

// TestPauseFails checks that a failed pause or resume does not change the sandbox's state.
func TestPauseFails(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{MemoryMB: 1024})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	no := fault.Newf(fault.Exhausted, "the disk is full")
	f.transition = func(string) error { return no }
	if err := pause(t, a, "x"); !errors.Is(err, no) || list(t, a)[0].Status != statusRunning {
		t.Errorf("%v, %v", err, list(t, a))
	}
	f.transition = nil
	if err := errors.Join(ping(t, a, "x"), pause(t, a, "x")); err != nil {
		t.Fatal(err)
	}
	// After Precondition a client can put back the replaced programs and try again.
	for kind, again := range map[fault.Kind]bool{fault.Corrupt: false, fault.Precondition: true} {
		f.transition = func(string) error { return fault.Newf(kind, "that is not what it was") }
		err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"})
		if fault.KindOf(err) != kind || list(t, a)[0].Status != statusPaused || strings.Contains(fault.HintOf(err), "call ResumeSandbox again") != again {
			t.Errorf("%v, %s, %v", err, fault.HintOf(err), list(t, a))
		}
	}
	f.transition = nil
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "y", MemoryMb: 1024}) // the paused sandbox x uses no memory
	if err := a.destroy(t.Context(), "x"); err != nil || f.ids() != 1 {
		t.Error(err)
	}
}

// TestCallsWaitForPause checks that a call during a pause waits for its end. The call must then
// fail because the sandbox is paused.
func TestCallsWaitForPause(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	began, proceed := make(chan bool), make(chan bool)
	f.transition = func(string) error {
		close(began)
		<-proceed
		return nil
	}
	paused := make(chan error)
	go func() { paused <- pause(t, a, "x") }()
	<-began
	hasty, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("in a hurry"))
	if _, err := a.all()[0].use(hasty); err == nil || err.Error() != "in a hurry" {
		t.Error(err)
	}
	if got := list(t, a)[0].Status; got != statusRunning {
		t.Errorf("it is %s", got)
	}
	pinged := make(chan error)
	go func() { pinged <- ping(t, a, "x") }()
	close(proceed)
	if err := <-paused; err != nil {
		t.Error(err)
	}
	if err := <-pinged; fault.KindOf(err) != fault.Precondition {
		t.Errorf("pinged: %v", err)
	}
}

// manualClock is a clock that the test sets.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (h *manualClock) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *manualClock) pass(d time.Duration) {
	h.mu.Lock()
	h.now = h.now.Add(d)
	h.mu.Unlock()
}

// reap pauses all inactive sandboxes. It waits until the sandboxes with the given IDs are paused.
func reap(t *testing.T, a *Agent, ids ...string) {
	t.Helper()
	a.reap()
	for _, id := range ids {
		s, err := a.find(id)
		if err != nil {
			t.Fatal(err)
		}
		done, err := s.lockChanges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done()
		if got, _ := a.status(s); got != statusPaused {
			t.Errorf("%s is %s", id, got)
		}
	}
}

func openAt(t *testing.T, folder string, f *fakes, h *manualClock) *Agent {
	t.Helper()
	a, err := Open(t.Context(), Options{Folder: folder, Machines: f, Log: quiet, clock: h.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func reported(t *testing.T, a *Agent, until int64) (ids []string, cursor int64) {
	t.Helper()
	r, err := a.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{AutoPausedUntil: until}))
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg.AutoPausedSandboxIds, r.Msg.AutoPausedCursor
}

func TestInactivityPauses(t *testing.T) {
	f, folder, h := newFakes(), t.TempDir(), &manualClock{now: time.Unix(1_000_000, 0)}
	a := openAt(t, folder, f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "a", TimeoutSec: 10})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "b", TimeoutSec: 10})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "never"})
	h.pass(9 * time.Second)
	if err := ping(t, a, "b"); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Second)
	reap(t, a, "a")
	ids, first := reported(t, a, 0)
	if len(ids) != 1 || ids[0] != "a" || first == 0 {
		t.Fatalf("reported %v, %d", ids, first)
	}
	if again, cursor := reported(t, a, 0); len(again) != 1 || cursor != first { // repeated, as if the response was lost
		t.Errorf("reported %v, %d", again, cursor)
	}
	h.pass(9 * time.Second)
	reap(t, a, "a", "b")
	if ids, cursor := reported(t, a, first); len(ids) != 1 || ids[0] != "b" || cursor <= first {
		t.Errorf("reported %v, %d", ids, cursor)
	}
	if ids, _ := reported(t, a, first); len(ids) != 1 {
		t.Errorf("an old acknowledgement took %v", ids)
	}
	a.Close()
	a = openAt(t, folder, f, h)
	ids, second := reported(t, a, 0)
	if len(ids) != 1 || ids[0] != "b" {
		t.Errorf("after a restart: reported %v, %d", ids, second)
	}
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "b", TimeoutSec: 5}); err != nil {
		t.Fatal(err)
	}
	if ids, _ := reported(t, a, 0); len(ids) != 0 {
		t.Errorf("reported one that runs: %v", ids)
	}
	h.pass(5 * time.Second)
	reap(t, a, "b")
	if ids, _ := reported(t, a, second); len(ids) != 1 { // this cursor acknowledges only the earlier pause
		t.Errorf("reported %v", ids)
	}
	if err := pause(t, a, "b"); err != nil {
		t.Fatal(err)
	}
	if ids, cursor := reported(t, a, 0); len(ids) != 0 || cursor != 0 {
		t.Errorf("reported %v, %d, though a call has paused it", ids, cursor)
	}
	if got := list(t, a)[2].Status; got != statusRunning {
		t.Errorf("the one without a limit is %s", got)
	}
}

// TestSlowPause checks that a slow or failing pause does not delay the pause of another sandbox.
func TestSlowPause(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1_000_000, 0)}
	a := openAt(t, t.TempDir(), f, h)
	for _, id := range []string{"fails", "slow", "z"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id, TimeoutSec: 1})
	}
	proceed := make(chan bool)
	f.transition = func(id string) error {
		switch id {
		case "ws-slow":
			<-proceed
		case "ws-fails":
			return fault.Newf(fault.Exhausted, "the disk is full")
		}
		return nil
	}
	h.pass(time.Second)
	reap(t, a, "z")
	close(proceed)
	reap(t, a, "slow")
	s, err := a.find("fails")
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.lockChanges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done()
	status, _ := a.status(s)
	if ids, _ := reported(t, a, 0); status != statusRunning || len(ids) != 2 || s.pauseDue() {
		t.Errorf("it is %s, due %v, and %v are reported", status, s.pauseDue(), ids)
	}
	if h.pass(reapAgain); !s.pauseDue() {
		t.Error("it is never tried again")
	}
}

// TestClockGoesBack sets the clock back and loses a response. It checks that no report is
// acknowledged before it was sent.
func TestClockGoesBack(t *testing.T) {
	f, folder, h := newFakes(), t.TempDir(), &manualClock{now: time.Unix(1_000_000, 0)}
	a := openAt(t, folder, f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "a", TimeoutSec: 10})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "b", TimeoutSec: 20})
	h.pass(10 * time.Second)
	reap(t, a, "a")
	_, first := reported(t, a, 0)
	a.Close()
	h.pass(-time.Hour)
	a = openAt(t, folder, f, h)
	h.pass(time.Hour + 10*time.Second)
	reap(t, a, "a", "b")
	h.pass(-time.Hour)
	for range 2 {
		if ids, cursor := reported(t, a, first); len(ids) != 2 || cursor <= first {
			t.Errorf("reported %v, %d after %d", ids, cursor, first)
		}
	}
	if ids, cursor := reported(t, a, math.MaxInt64); len(ids) != 0 || cursor != 0 {
		t.Errorf("reported %v, %d", ids, cursor)
	}
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "a", TimeoutSec: 10}); err != nil {
		t.Fatal(err)
	}
	h.pass(10 * time.Second)
	reap(t, a, "a", "b")
	if ids, cursor := reported(t, a, first); len(ids) != 1 || cursor <= first {
		t.Errorf("after an acknowledgement of everything: reported %v, %d", ids, cursor)
	}
}

// TestStatusAfterFailedResume checks the state of two sandboxes after a failed resume. The machine
// of the first ended during the resume. The second stayed paused.
func TestStatusAfterFailedResume(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	for id, status := range map[string]string{"ends": statusStopped, "stays": statusPaused} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
		if err := pause(t, a, id); err != nil {
			t.Fatal(err)
		}
		f.transition = func(workspace string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.stopped[workspace], f.paused[workspace] = status == statusStopped, status == statusPaused
			return fault.Newf(fault.Unavailable, "its supervisor has ended")
		}
		if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: id}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", id, err)
		}
		s, err := a.find(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.status(s); got != status || err != nil {
			t.Errorf("%s is %s, %v", id, got, err)
		}
		f.transition = nil
	}
}

// TestMachineEndsDuringCreation checks that creating a sandbox fails if its machine ends during the
// creation.
func TestMachineEndsDuringCreation(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	f.stop("ws-x")
	_, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"}))
	if fault.KindOf(err) != fault.Unavailable || len(list(t, a)) != 0 || f.ids() != 0 {
		t.Errorf("%v; there are %v, and %d machines", err, list(t, a), f.ids())
	}
}

// TestDeathDuringPause simulates a host agent that dies during automatic pauses. The next host
// agent must report only the pause that completed.
func TestDeathDuringPause(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	for _, id := range []string{"paused", "runs"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
		s, _ := a.find(id)
		if err := a.set(s, func(r *record) { r.Inactive = true }); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	a = open(t, folder, f, Limits{})
	f.setPaused("ws-paused", true)
	if ids, _ := reported(t, a, 0); len(ids) != 1 || ids[0] != "paused" {
		t.Errorf("reported %v", ids)
	}
}
