package daemon

import (
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestReconfigure(t *testing.T) {
	h := newHome(t, func(w *store.Workspace) { w.Spec.TTLSeconds = 600 })
	c := h.live(t)
	id := h.config.Workspace.ID
	check(t, h.store.Update(t.Context(), id, func(w *store.Workspace) error {
		w.Spec.TTLSeconds = 7200
		return nil
	}))
	check(t, c.Reconfigure(t.Context()))
	status, err := c.Status(t.Context())
	check(t, err)
	if left := status.ExpiresAt.Sub(status.LastActivityAt); left != 2*time.Hour {
		t.Errorf("it expires %v after the last activity", left)
	}
	testenv.Eventually(t, "the database has the new expiry", func() bool {
		w, err := h.store.Workspace(t.Context(), id)
		check(t, err)
		return time.Until(w.ExpiresAt) > time.Hour
	})
}

// TestShape checks that only a saved machine has the shape that it was started with.
func TestShape(t *testing.T) {
	now := store.Shape{VCPUCount: 1, MemMiB: 512, Networked: true}
	d := &daemon{}
	d.config.Workspace.Spec = store.Spec{VCPUCount: 2, MemMiB: 1024, Network: store.NetworkOff, Machine: &now}
	if got := d.shape(); got != (store.Shape{VCPUCount: 2, MemMiB: 1024}) {
		t.Errorf("a new machine: %+v", got)
	}
	d.config.Workspace.Disks.Checkpoint = "checkpoint-1"
	if got := d.shape(); got != now {
		t.Errorf("a saved machine: %+v", got)
	}
}
