package rpc

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Call is one call under way, as its operation sees it.
type Call struct {
	// Stdout and Stderr pass on to the client what a command prints; nil where it did not ask for that. A client that is slow to read makes them wait.
	Stdout, Stderr io.Writer

	id      json.RawMessage
	to      *outlet
	ctx     context.Context
	cancel  context.CancelCauseFunc
	streams []*stream
	window  window

	mu     sync.Mutex
	events chan progress.Event // nil where nobody is told
	told   progress.Event
	at     time.Time
	passed chan struct{} // closed when all events are told
}

// newCall makes a call that is to end with ctx.
func newCall(ctx context.Context, id json.RawMessage, to *outlet, o options) *Call {
	c := &Call{id: id, to: to, window: window{size: o.Window, more: make(chan struct{}, 1)}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if o.Stream {
		out, errs := &stream{call: c, name: "stdout"}, &stream{call: c, name: "stderr"}
		c.Stdout, c.Stderr, c.streams = out, errs, []*stream{out, errs}
		c.events, c.passed = make(chan progress.Event, 64), make(chan struct{})
		go c.pass(c.events)
	}
	return c
}

// tellInterval is how long the same is not told again.
const tellInterval = 100 * time.Millisecond

// Report tells the client what is made, if it asked for that: the same phase ten times a second at most. It never waits: a client that is slow to read is told less.
func (c *Call) Report(e progress.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		return
	}
	same := e.Phase == c.told.Phase && e.Subject == c.told.Subject
	if unfinished := e.Total == 0 || e.Done < e.Total; same && unfinished && time.Since(c.at) < tellInterval {
		return
	}
	select {
	case c.events <- e:
		c.told, c.at = e, time.Now()
	default:
	}
}

// pass tells the client of events.
func (c *Call) pass(events <-chan progress.Event) {
	defer close(c.passed)
	for e := range events {
		c.notify("progress", struct {
			ID      json.RawMessage `json:"id"`
			Phase   string          `json:"phase"`
			Subject string          `json:"subject"`
			Done    int64           `json:"done"`
			Total   int64           `json:"total,omitempty"`
		}{c.id, e.Phase, e.Subject, e.Done, e.Total})
	}
}

// notify sends a notification, which may wait for the client until the call is cancelled.
func (c *Call) notify(method string, params any) error {
	text, err := encode(notification{"2.0", method, params})
	if err != nil {
		return err
	}
	return c.to.send(c.ctx, message{text: text})
}

// finish tells what is left to tell. Nothing is told afterwards.
func (c *Call) finish() {
	for _, s := range c.streams {
		s.flush()
	}
	c.mu.Lock()
	events := c.events
	c.events = nil
	c.mu.Unlock()
	if events != nil {
		close(events)
		<-c.passed
	}
}
