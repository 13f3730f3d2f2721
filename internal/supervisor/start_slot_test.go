package supervisor

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/testenv"
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
	testenv.Eventually(t, "a released slot is reused", func() bool {
		got, began := make(chan *flock.Lock, 1), time.Now()
		go func() { got <- takeSlot(ctx, dir) }()
		time.Sleep(30 * time.Millisecond)
		early := len(got) > 0
		held[0].Release()
		next := <-got
		late := time.Since(began) >= slotTimeout // on a stalled host, a start can give up too early
		if next == nil && late {
			held[0] = takeSlot(ctx, dir)
			return false
		}
		if next == nil || early {
			t.Fatalf("a start did not wait for a slot: %v", next)
		}
		held[0] = next
		return true
	})
	for _, slot := range held {
		slot.Release()
	}
	// Without a state folder there are no slots, but machines still start.
	if takeSlot(ctx, "/dev/null/turns") != nil {
		t.Error("got a slot without a folder")
	}
}
