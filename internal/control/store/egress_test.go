package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestEgress checks that each byte that sandboxes send counts once, in its month. A team that has
// spent its quota can start no sandbox in this month.
func TestEgress(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.now = time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
		january := w.now.Add(time.Second)
		w.team = w.addTeam(t, "egress", w.owner)
		n := w.newSandbox()
		n.CreatedAt = w.now
		b, _, err := w.AddSandbox(ctx, n)
		check(t, err)
		used := func(at time.Time, mb int64) {
			t.Helper()
			if u, err := w.Used(ctx, w.team, at); err != nil || u.EgressMB != mb {
				t.Errorf("in %s: got %d MB, %v, want %d", at.Month(), u.EgressMB, err, mb)
			}
		}
		count := func(since, bytes int64, at time.Time, want bool) {
			t.Helper()
			if spent, err := w.CountSent(ctx, b.ID, since, bytes, at); err != nil || spent != want {
				t.Errorf("got %v, %v, want %v", spent, err, want)
			}
		}
		check(t, w.SetQuota(ctx, w.team, store.Quota{EgressMB: 3}))
		var all sync.WaitGroup
		for range 10 { // the same report, as by several control planes
			all.Go(func() { count(1, 1<<20, w.now, false) })
		}
		all.Wait()
		used(w.now, 1)
		count(1, 1<<19, w.now, false) // an earlier report that comes late
		count(1, 2<<20-1, w.now, false)
		used(w.now, 1)
		count(2, 1<<20, w.now, false) // a resumed sandbox counts from 0
		used(w.now, 2)
		count(1, 2<<20, w.now, false) // a late report about the first machine
		used(w.now, 2)
		count(2, 1<<20+1, w.now, true)
		count(2, 1<<20+1, w.now, false) // nothing new
		used(w.now, 3)
		used(january, 0)
		if spent, err := w.EgressSpent(ctx, w.team, w.now); err != nil || !spent {
			t.Errorf("%v, %v", spent, err)
		}
		_, err = w.SetWanted(ctx, w.team, b.ID, store.WantPaused, w.now)
		check(t, err)
		_, err = w.SetWanted(ctx, w.team, b.ID, store.WantRunning, w.now)
		if fault.KindOf(err) != fault.Exhausted {
			t.Errorf("resume: %v", err)
		}
		more := w.newSandbox()
		more.CreatedAt = w.now
		if _, _, err := w.AddSandbox(ctx, more); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("create: %v", err)
		}
		if spent, err := w.EgressSpent(ctx, w.team, january); err != nil || spent {
			t.Errorf("in January: %v, %v", spent, err)
		}
		_, err = w.SetWanted(ctx, w.team, b.ID, store.WantRunning, january)
		check(t, err)
		count(2, 2<<20+1, january, false)
		used(january, 1)
		used(w.now, 3)
		if spent, err := w.CountSent(ctx, "cl-missing", 1, 1, w.now); err != nil || spent {
			t.Errorf("a missing sandbox: %v, %v", spent, err)
		}
	})
}
