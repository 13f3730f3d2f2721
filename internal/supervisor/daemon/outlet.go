package daemon

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// outlet is where a stream of something that runs in the machine goes, with secrets hidden. It knows how much of the stream has come, and can be held there.
type outlet struct {
	mu   sync.Mutex // held by who writes, and by who holds it
	came atomic.Uint64
	w    *secret.Writer
	left bool
}

// point is where a stream stands.
type point struct {
	Came uint64     `json:"came"` // bytes of it
	Cut  secret.Cut `json:"cut,omitzero"`
}

// outlet begins one, or goes on where another stood.
func (d *daemon) outlet(to io.Writer, from point) *outlet {
	o := &outlet{w: d.secrets.Continue(to, from.Cut)}
	o.came.Store(from.Came)
	return o
}

// errLeft is what somebody is told who waits for something that goes on without this supervisor.
var errLeft = fault.New(fault.Unavailable, "", "", "the workspace was paused while it ran, where it stands now").WithHint("what is done next with the workspace has it go on")

func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left {
		return 0, errLeft
	}
	n, err := o.w.Write(b)
	o.came.Add(uint64(n))
	return n, err
}

// Close passes on what is held back, unless the stream goes on elsewhere.
func (o *outlet) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left {
		return nil
	}
	return o.w.Close()
}

// holdPatience is how long an outlet is waited for that waits for somebody else.
const holdPatience = time.Second

// hold keeps an outlet from taking more, and tells where it stands. held is false where somebody on the other side takes nothing: what they have got by then is not
// known for certain.
func (o *outlet) hold(ctx context.Context) (at point, held bool) {
	ctx, cancel := context.WithTimeout(ctx, holdPatience)
	defer cancel()
	for !o.mu.TryLock() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return point{Came: o.came.Load()}, false
		}
	}
	return point{Came: o.came.Load(), Cut: o.w.Cut()}, true
}

// release ends a hold. Where the stream has been left, nothing more is taken.
func (o *outlet) release(left bool) {
	o.left = left
	if !left {
		o.w.Write(nil) // what is held back is passed on in time again
	}
	o.mu.Unlock()
}

// hasLeft tells whether an error is that something goes on without this supervisor.
func (d *daemon) hasLeft(err error) bool {
	return err != nil && (errors.Is(err, errLeft) || d.left.Load())
}
