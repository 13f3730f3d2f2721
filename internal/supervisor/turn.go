package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

const (
	// turnPatience bounds how long a start waits for its turn. It goes on without one then: a turn spares time, and nothing depends on it.
	turnPatience = 3 * time.Second
	turnEvery    = 5 * time.Millisecond
	// turnGrace is how much longer a started machine has its turn, unless it ends before: what it runs first keeps a processor as busy as the start did,
	// where an emulator translates it for the first time.
	turnGrace = 150 * time.Millisecond
)

// takeTurn waits until fewer machines are being started on this host than it has processors. Each start keeps one busy, so more of them at once only take each
// other's caches. The turn may be nil; it has to be released.
func takeTurn(ctx context.Context, dir string) *flock.Lock {
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	over := time.After(turnPatience)
	for {
		for i := range runtime.NumCPU() {
			if l, err := flock.Try(filepath.Join(dir, fmt.Sprint(i)), flock.Exclusive); err == nil {
				return l
			}
		}
		select {
		case <-time.After(turnEvery):
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
