package hostagent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// watch opens a stream of Watch. The function next returns the next changed state as "ID status".
func watch(t *testing.T, address, only string) (next func() string) {
	t.Helper()
	c := hostClient(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := c.Watch(ctx, connect.NewRequest(&hostpb.WatchRequest{SandboxId: only}))
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	return func() string {
		t.Helper()
		timeout := time.AfterFunc(testenv.Patience, cancel)
		defer timeout.Stop()
		for stream.Receive() {
			m := stream.Msg()
			if m.Synced {
				return "synced"
			}
			if last[m.SandboxId] != m.Status { // otherwise only the time of the last activity has changed
				last[m.SandboxId] = m.Status
				return m.SandboxId + " " + m.Status
			}
		}
		return "end: " + connect.CodeOf(stream.Err()).String()
	}
}

// TestWatch checks that a watcher gets each change of a sandbox, with any cause.
func TestWatch(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "old"})
	address := serve(t, a, ServeOptions{})
	next, only := watch(t, address, ""), watch(t, address, "x")
	expect := func(from func() string, want string) {
		t.Helper()
		if got := from(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	expect(next, "old running")
	expect(next, "synced")
	expect(only, "synced")
	steps := []struct {
		do   func() error
		want string
	}{
		{func() error { create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"}); return nil }, "x running"},
		{func() error { return pause(t, a, "x") }, "x paused"},
		{func() error { return resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}) }, "x running"},
		{func() error { return resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x", TimeoutSec: 1}) }, "x paused"}, // after a second without use
		{func() error { return resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "x"}) }, "x running"},
		{func() error { return f.setPaused("ws-x", true) }, "x paused"},   // by another process
		{func() error { return f.setPaused("ws-x", false) }, "x running"}, // by another process
		{func() error { f.stop("ws-x"); return nil }, "x stopped"},
		{func() error { return a.destroy(t.Context(), "x") }, "x "},
	}
	for i, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		expect(next, s.want)
		expect(only, s.want)
	}
	a.drain()
	expect(next, "end: unavailable")
}

// TestQuickResume checks that a watcher hears of a resume by another process, even if it comes just
// after the watcher has read the state paused.
func TestQuickResume(t *testing.T) {
	f := newFakes()
	var w *watcher
	var resume sync.Once
	resumed := make(chan struct{})
	f.asked = func(id string) {
		if paused, _ := f.Paused(t.Context(), id); paused {
			resume.Do(func() {
				<-w.wake
				w.next()
				if err := f.setPaused(id, false); err != nil {
					t.Error(err)
				}
				close(resumed)
			})
		}
	}
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	w = a.watchers.add("x")
	if err := f.setPaused("ws-x", true); err != nil {
		t.Fatal(err)
	}
	<-resumed
	select {
	case <-w.wake:
	case <-time.After(testenv.Patience):
		t.Fatal("the watcher did not hear of the resume")
	}
}

// TestSlowWatcher checks the memory of a watcher that reads nothing. It may grow only with the
// number of sandboxes that exist or that the watcher knows.
func TestSlowWatcher(t *testing.T) {
	var all watchers
	w := all.add("")
	defer all.drop(w)
	all.changed("known")
	w.next()
	for i := range 1000 {
		all.changed(fmt.Sprint(i))
		all.changed("known")
		all.removed(fmt.Sprint(i))
	}
	all.removed("known")
	if len(w.dirty) != 1 || len(w.known) != 1 {
		t.Errorf("got %d marked and %d known sandboxes, want 1", len(w.dirty), len(w.known))
	}
	if id, known, ok := w.next(); !ok || !known {
		t.Errorf("got %q, %v, %v", id, known, ok)
	}
}

// TestWatchersDuringChanges checks that the last message about each sandbox has its final state.
func TestWatchersDuringChanges(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	address := serve(t, a, ServeOptions{})
	next := watch(t, address, "")
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			id := fmt.Sprint("s", i)
			for range 10 {
				create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
				if pause(t, a, id) != nil || i%2 == 0 && a.destroy(t.Context(), id) != nil {
					t.Error("a change failed")
				}
			}
		})
	}
	work.Wait()
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "last"})
	seen := map[string]bool{}
	last := watch(t, address, "")
	for m := last(); m != "synced"; m = last() {
		seen[m] = true
	}
	final := map[string]bool{}
	for len(final) < 5 {
		m := next()
		if m == "end: canceled" {
			t.Fatalf("got only the states %v", final)
		}
		if seen[m] {
			final[m] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("got %v", seen)
	}
}

// TestUseIsReportedSoon checks that a client that watches only one sandbox soon hears of its use,
// also if a later report is pending.
func TestUseIsReportedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all watchers
		s := &sandbox{name: "x", clock: time.Now, watchers: &all}
		everything := all.add("")
		began := time.Now()
		await := func(w *watcher, want time.Duration) {
			<-w.wake
			if took := time.Since(began); took != want {
				t.Errorf("the report came after %v instead of %v", took, want)
			}
			began = time.Now()
		}
		s.touch()
		await(everything, reportUseAfter)
		s.touch()
		one := all.add("x")
		s.touch()
		await(one, reportSoon)
		s.busy = 1 // a terminal is open: each report is followed by another one
		s.touch()
		await(one, reportSoon)
		await(one, reportUseAfter)
		s.touch()
		await(one, reportSoon)
		s.mu.Lock()
		s.busy = 0
		s.mu.Unlock()
		await(one, reportUseAfter)
		if s.useReport != nil {
			t.Error("an idle sandbox is reported")
		}
	})
}
