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
	// slotTimeout is the longest time that a start waits for a slot. It then continues without a
	// slot, because slots only save time.
	slotTimeout  = 3 * time.Second
	slotInterval = 5 * time.Millisecond
	// slotGrace is how much longer a started machine keeps its slot. If an emulator translates its
	// first programs for the first time, they need a processor as much as the start did.
	slotGrace = 150 * time.Millisecond
)

// takeSlot waits until fewer machines are being started on this host than it has processors. Each
// start keeps a processor busy, so more concurrent starts would only compete for caches. It returns
// nil if no slot becomes free within slotTimeout, if ctx is cancelled, or if dir can't be created.
// The caller must release the slot.
func takeSlot(ctx context.Context, dir string) *flock.Lock {
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	over := time.After(slotTimeout)
	for {
		for i := range runtime.NumCPU() {
			if l, err := flock.Try(filepath.Join(dir, fmt.Sprint(i)), flock.Exclusive); err == nil {
				return l
			}
		}
		select {
		case <-time.After(slotInterval):
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
