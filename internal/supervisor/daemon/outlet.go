package daemon

import (
	"cmp"
	"errors"
	"io"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// outlet is where a stream of something that runs in the machine goes, with secrets hidden. It knows how much of the stream has come, and can be held there, whoever
// reads or does not.
type outlet struct {
	reader *relay // nil: nobody reads it who could be slow

	mu   sync.Mutex // held by who takes something, which waits for nobody, and by who holds it
	came uint64
	w    *secret.Writer
	left bool
}

// point is where a stream stands.
type point struct {
	Came uint64     `json:"came"` // bytes of it
	Cut  secret.Cut `json:"cut,omitzero"`
}

// outlet begins one, or goes on where another stood. Writing to to must not wait for anybody.
func (d *daemon) outlet(to io.Writer, from point) *outlet {
	return &outlet{w: d.secrets.Continue(to, from.Cut), came: from.Came}
}

// outletFor begins one that somebody reads, and something is kept of. Who writes waits for the reader.
func (d *daemon) outletFor(reader, kept io.Writer) *outlet {
	r := newRelay(reader)
	o := d.outlet(io.MultiWriter(kept, r), point{})
	o.reader = r
	return o
}

// errLeft is what somebody is told who waits for something that goes on without this supervisor.
var errLeft = fault.Newf(fault.Unavailable, "the workspace was paused while it ran, where it stands now").WithHint("what is done next with the workspace has it go on")

func (o *outlet) Write(b []byte) (n int, err error) {
	err = o.pass(func() error {
		if o.left {
			return errLeft
		}
		n, err = o.w.Write(b)
		o.came += uint64(n)
		return err
	})
	return n, err
}

// Close passes on what is held back, unless the stream goes on elsewhere.
func (o *outlet) Close() error {
	return o.pass(func() error {
		if o.left {
			return nil
		}
		return o.w.Close()
	})
}

// pass has something be taken, and waits until whoever reads it has it.
func (o *outlet) pass(take func() error) error {
	if o.reader == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		return take()
	}
	o.reader.begin()
	o.mu.Lock()
	err := take()
	o.mu.Unlock()
	return cmp.Or(err, o.reader.end())
}

// hold keeps an outlet from taking more, and tells where it stands. What has come may be on its way to the reader still.
func (o *outlet) hold() point {
	o.mu.Lock()
	return point{Came: o.came, Cut: o.w.Cut()}
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
