package serve

import (
	"context"
	"sync"
)

// window limits the output that a client has not confirmed. A client that confirms what it has
// shown is never behind by more, even if its connection buffers much.
type window struct {
	size int64 // in bytes; 0: no limit

	mu          sync.Mutex
	unconfirmed int64
	confirmed   chan struct{} // has one place
}

func newWindow(size int64) *window {
	return &window{size: size, confirmed: make(chan struct{}, 1)}
}

// wait waits until there is room for n more bytes, and counts them. An empty window has room for
// any number of bytes. wait returns the error of ctx if ctx is done first.
func (w *window) wait(ctx context.Context, n int) error {
	if w.size <= 0 {
		return nil
	}
	for {
		w.mu.Lock()
		room := w.unconfirmed == 0 || w.unconfirmed+int64(n) <= w.size
		if room {
			w.unconfirmed += int64(n)
		}
		w.mu.Unlock()
		if room {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.confirmed:
		}
	}
}

// confirm counts n bytes as shown.
func (w *window) confirm(n int64) {
	w.mu.Lock()
	w.unconfirmed -= min(max(n, 0), w.unconfirmed)
	w.mu.Unlock()
	select {
	case w.confirmed <- struct{}{}:
	default:
	}
}
