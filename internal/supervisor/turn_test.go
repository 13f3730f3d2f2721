package supervisor

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

func TestTurns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "turns")
	ctx := context.Background()
	var taken []*flock.Lock
	for range runtime.NumCPU() {
		turn := takeTurn(ctx, dir)
		if turn == nil {
			t.Fatal("a processor is idle, and there is no turn")
		}
		taken = append(taken, turn)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if takeTurn(cancelled, dir) != nil {
		t.Error("there are more turns than processors")
	}
	got := make(chan *flock.Lock)
	go func() { got <- takeTurn(ctx, dir) }()
	select {
	case <-got:
		t.Fatal("a turn did not wait")
	case <-time.After(30 * time.Millisecond):
	}
	taken[0].Release()
	next := <-got
	if next == nil {
		t.Error("a turn that was over was not given on")
	}
	for _, turn := range append(taken, next) {
		turn.Release()
	}
	// A state folder that can't be made costs the turn and not the start.
	if takeTurn(ctx, "/dev/null/turns") != nil {
		t.Error("there is a turn without a folder")
	}
}
