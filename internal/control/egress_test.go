package control

import (
	"testing"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestEgressQuota checks that the sandboxes of a team are paused when they have sent as much as the
// team may send. They can't run again before the quota is raised.
func TestEgressQuota(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		quota := func(mb int64) { w.check(w.store.SetQuota(ctx, w.by.TeamID, store.Quota{EgressMB: mb})) }
		used := func(mb int64) {
			t.Helper()
			testenv.Eventually(w.t, "the use is recorded", func() bool {
				q, err := w.Quota(ctx, w.by)
				return err == nil && q.Used.EgressMB == mb
			})
		}
		quota(3)
		a, b, c := w.create(), w.create(), w.create()
		_, err := w.PauseSandbox(ctx, w.by, c.ID)
		w.check(err)
		w.host.Send(a.ID, 1, 1<<20, false) // before the stream
		w.follow()
		used(1)
		w.host.Send(a.ID, 1, 2<<20, true)
		used(2)
		w.becomes(a.ID, statusRunning, store.WantRunning)
		w.host.Send(b.ID, 1, 1<<20, true)
		for _, id := range []string{a.ID, b.ID, c.ID} {
			w.becomes(id, statusPaused, store.WantPaused)
		}
		_, err = w.ResumeSandbox(ctx, w.by, a.ID)
		w.wants("resume", err, fault.Exhausted)
		_, err = w.CallSandbox(ctx, w.by, a.ID, Call{Method: "x", NeedsMachine: true, Resumes: true})
		w.wants("a call that resumes", err, fault.Exhausted)
		_, err = w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
		w.wants("create", err, fault.Exhausted)
		w.host.Set(b.ID, statusRunning)
		testenv.Eventually(w.t, "a sandbox that the host has resumed is paused again", func() bool { return w.host.Statuses()[b.ID] == statusPaused })
		w.becomes(b.ID, statusPaused, store.WantPaused)
		entries, err := w.Audits(ctx, w.owner(), store.AuditQuery{Limit: 100})
		w.check(err)
		paused := map[string]int{}
		for _, e := range entries {
			if e.Action == actPause && e.ActorType == store.ActorSystem && e.Result == store.AuditOK {
				paused[e.Subject]++
			}
		}
		if len(paused) != 2 || paused[a.ID] != 1 || paused[b.ID] == 0 {
			t.Errorf("paused: %v", paused)
		}

		quota(5)
		_, err = w.ResumeSandbox(ctx, w.by, a.ID)
		w.check(err)
		w.host.Send(a.ID, 2, 1<<20, false) // another machine counts from 0
		w.check(w.DeleteSandbox(ctx, w.by, a.ID))
		used(4)
		_, err = w.ResumeSandbox(ctx, w.by, b.ID)
		w.check(err)
		w.host.Send(b.ID, 2, 1<<20, false)
		_, err = w.CreateTemplate(ctx, w.by, NewTemplate{SandboxID: b.ID})
		w.check(err)
		used(5)
		quota(0)
		w.create()
	})
}
