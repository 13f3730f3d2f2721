package control

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pyro-mcp/pyro/internal/control/hosttest"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestSharedDatabase runs two control planes on one database. Each has its own host. While one
// control plane creates, pauses or deletes a sandbox, the other control plane must not change it.
func TestSharedDatabase(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		options := Options{Store: w.store, Hosts: []Host{{"other key", "here", hosttest.New()}}, Log: slog.New(slog.DiscardHandler), HashMemory: 64}
		_, err := New(ctx, options)
		w.wants("another host with this name", err, fault.Exists)
		options.Hosts[0].Name = "there"
		other, err := New(ctx, options)
		w.check(err)
		reconciled := 0
		w.host.SetBreak(func(call string, _ bool) error {
			reconciled++
			return other.Reconcile(context.WithoutCancel(ctx))
		})
		b := w.create()
		_, err = w.PauseSandbox(ctx, w.by, b.ID)
		w.check(err)
		w.check(other.Reconcile(ctx))
		w.consistent()
		_, err = other.ResumeSandbox(ctx, w.by, b.ID)
		w.wants("resume a sandbox of another host", err, fault.Unavailable)
		w.wants("delete a sandbox of another host", other.DeleteSandbox(ctx, w.by, b.ID), fault.Unavailable)
		_, err = other.ForkSandbox(ctx, w.by, b.ID, Fork{})
		w.wants("fork a sandbox of another host", err, fault.Unavailable)
		if all, err := w.Sandboxes(ctx, w.by); err != nil || len(all) != 1 {
			t.Errorf("after a fork that failed: %+v, %v", all, err)
		}
		w.consistent()
		made, err := other.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
		if err != nil || made.HostID == b.HostID || made.Status != statusRunning {
			t.Errorf("%+v, %v", made, err)
		}
		w.host.SetBreak(nil)
		if err := w.DeleteSandbox(ctx, w.by, b.ID); err != nil || reconciled < 4 {
			t.Errorf("%v, reconciled %d times", err, reconciled)
		}
		w.check(w.Reconcile(ctx))
		if all, err := w.Sandboxes(ctx, w.by); err != nil || len(all) != 1 || all[0].ID != made.ID || all[0].Status == StatusMissing {
			t.Errorf("%+v, %v", all, err)
		}
		w.check(other.DeleteSandbox(ctx, w.by, made.ID))
		if states, err := w.HostStates(ctx); err != nil || len(states) != 2 || !states[0].Online || states[1].Online {
			t.Errorf("%+v, %v", states, err)
		}
		w.restart()
		if b := w.create(); b.Wanted != store.WantRunning {
			t.Errorf("%+v", b)
		}
	})
}
