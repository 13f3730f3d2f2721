package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// follow follows the host until the end of the test.
func (w *world) follow() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var following sync.WaitGroup
	following.Go(func() { w.Follow(ctx) })
	w.t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	testenv.Eventually(w.t, "the host is followed", func() bool { return w.host.Watchers() == 1 })
}

// becomes waits until the record of a sandbox has a state.
func (w *world) becomes(id, status string, wanted store.Wanted) {
	w.t.Helper()
	testenv.Eventually(w.t, "the record is "+status+", wanted "+string(wanted), func() bool {
		b, err := w.store.Record(w.t.Context(), id)
		return err == nil && b.Status == status && b.Wanted == wanted
	})
}

// use lets a sandbox be used at a later time, and returns this time.
func (w *world) use(id string) time.Time {
	used := time.Now().Add(time.Hour).Truncate(time.Second)
	w.host.Use(id, used.Unix())
	return used
}

// wasUsed waits until the record of a sandbox has the time of its last use.
func (w *world) wasUsed(id string, used time.Time) {
	w.t.Helper()
	testenv.Eventually(w.t, "the use is recorded", func() bool {
		b, err := w.store.Record(w.t.Context(), id)
		return err == nil && b.ActiveAt.Equal(used)
	})
}

// TestFollow checks that the control plane records changes that the host makes without a call, even
// while the stream is broken. It also checks that an idle control plane does not call the host.
func TestFollow(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		early, b := w.create(), w.create()
		w.host.PauseInactive(early.ID)
		w.follow()
		w.becomes(early.ID, statusPaused, store.WantPaused)
		w.host.PauseInactive(b.ID)
		w.becomes(b.ID, statusPaused, store.WantPaused)
		w.host.Set(b.ID, statusRunning)
		w.becomes(b.ID, statusRunning, store.WantRunning)
		w.wasUsed(b.ID, w.use(b.ID))
		w.host.Set(b.ID, "stopped")
		w.becomes(b.ID, "stopped", store.WantRunning)

		var calls atomic.Int64
		w.host.SetBreak(func(string, bool) error { calls.Add(1); return nil })
		time.Sleep(300 * time.Millisecond)
		if n := calls.Load(); n > 0 {
			t.Errorf("the host got %d calls from an idle control plane", n)
		}
		w.host.SetBreak(func(string, bool) error { return connect.NewError(connect.CodeUnavailable, errors.New("gone")) })
		w.host.BreakStreams()
		testenv.Eventually(w.t, "the stream is broken", func() bool { return w.host.Watchers() == 0 })
		w.host.Lose(early.ID)
		w.host.Set(b.ID, statusRunning)
		w.host.SetBreak(nil)
		w.becomes(early.ID, StatusMissing, store.WantPaused)
		w.becomes(b.ID, statusRunning, store.WantRunning)
	})
}

// TestFollowFinishesOperations checks that operations without an answer of the host are finished,
// even if the host fails for a while.
func TestFollowFinishesOperations(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.follow()
		for _, done := range []bool{false, true} {
			for _, call := range []string{"create", "pause", "resume", "destroy"} {
				b := w.create()
				if call == "resume" {
					_, err := w.PauseSandbox(t.Context(), w.by, b.ID)
					w.check(err)
				}
				var failures atomic.Int64
				failures.Store(3)
				w.host.SetBreak(func(c string, d bool) error {
					if c == call && d == done && failures.Add(-1) >= 0 {
						return connect.NewError(connect.CodeUnavailable, errors.New("broken"))
					}
					return nil
				})
				w.operate(call, b.ID)
				switch call {
				case "create":
					w.becomes(b.ID, statusRunning, store.WantRunning)
				case "pause":
					w.becomes(b.ID, statusPaused, store.WantPaused)
				case "resume":
					w.becomes(b.ID, statusRunning, store.WantRunning)
				case "destroy":
					testenv.Eventually(w.t, "it is gone", func() bool { _, err := w.store.Record(t.Context(), b.ID); return err != nil })
				}
				w.host.SetBreak(nil)
			}
		}
		testenv.Eventually(w.t, "the host has exactly the recorded sandboxes", func() bool {
			all, err := w.Sandboxes(t.Context(), w.by)
			return err == nil && len(all) == len(w.host.Statuses())
		})
		w.consistent()
	})
}

// TestFollowAfterOperation checks that a use or a state that the host reports during an operation
// is recorded after the operation. Other requests that find the sandbox busy must not prevent this.
func TestFollowAfterOperation(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.follow()
		b := w.create()
		unlock, err := w.lock(t.Context(), b.ID)
		w.check(err)
		used := w.use(b.ID)
		time.Sleep(100 * time.Millisecond) // the follower finds the sandbox busy
		unlock()
		w.wasUsed(b.ID, used)
		unlock, err = w.lock(t.Context(), b.ID)
		w.check(err)
		w.host.Set(b.ID, "stopped")
		time.Sleep(100 * time.Millisecond)
		w.check(w.Reconcile(t.Context()))
		w.check(w.reconcileTemplate(t.Context(), Host{}, store.Template{SandboxID: b.ID, HostID: b.HostID}))
		unlock()
		w.becomes(b.ID, "stopped", store.WantRunning)
	})
}

// TestFollowDuringOperations changes sandboxes while the host pauses them for inactivity.
func TestFollowDuringOperations(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.follow()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 5 {
					b := w.create()
					w.host.PauseInactive(b.ID)
					w.ResumeSandbox(t.Context(), w.by, b.ID) // fails if the pause was not recorded yet
					w.host.Set(b.ID, statusRunning)
					w.PauseSandbox(t.Context(), w.by, b.ID)
				}
			})
		}
		all.Wait()
		testenv.Eventually(w.t, "records and host agree", func() bool {
			there := w.host.Statuses()
			all, err := w.Sandboxes(t.Context(), w.by)
			for _, b := range all {
				if b.Status != there[b.ID] || b.Status != string(b.Wanted) {
					return false
				}
			}
			return err == nil && len(all) == 20
		})
	})
}
