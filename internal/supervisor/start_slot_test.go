package supervisor

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

func TestStartSlots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "turns")
	ctx := context.Background()
	var held []*flock.Lock
	for range runtime.NumCPU() {
		slot := takeSlot(ctx, dir)
		if slot == nil {
			t.Fatal("got no slot, but a processor is idle")
		}
		held = append(held, slot)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if takeSlot(cancelled, dir) != nil {
		t.Error("got more slots than processors")
	}
	got := make(chan *flock.Lock)
	go func() { got <- takeSlot(ctx, dir) }()
	select {
	case <-got:
		t.Fatal("a start did not wait")
	case <-time.After(30 * time.Millisecond):
	}
	held[0].Release()
	next := <-got
	if next == nil {
		t.Error("a released slot was not reused")
	}
	for _, slot := range append(held, next) {
		slot.Release()
	}
	// Without a state folder there are no slots, but machines still start.
	if takeSlot(ctx, "/dev/null/turns") != nil {
		t.Error("got a slot without a folder")
	}
}
