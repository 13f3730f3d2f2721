package rpc

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/progress"
)

// Call is a running call. Operations use it to send output and progress.
type Call struct {
	// Stdout and Stderr send the output of a command to the client. They are nil if the client did
	// not ask for notifications. Writes block while the client is slow to read.
	Stdout, Stderr io.Writer

	id      json.RawMessage
	to      *sender
	ctx     context.Context
	cancel  context.CancelCauseFunc
	streams []*stream
	window  window

	mu     sync.Mutex
	events chan progress.Event // nil if the client wants no notifications
	last   progress.Event      // the last reported event
	at     time.Time           // time of the last reported event
	sent   chan struct{}       // closed after all events were sent
}

// newCall returns a call whose context is derived from ctx.
func newCall(ctx context.Context, id json.RawMessage, to *sender, o options) *Call {
	c := &Call{id: id, to: to, window: window{size: o.Window, more: make(chan struct{}, 1)}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if o.Stream {
		out, errs := &stream{call: c, name: "stdout"}, &stream{call: c, name: "stderr"}
		c.Stdout, c.Stderr, c.streams = out, errs, []*stream{out, errs}
		c.begin(func(e progress.Event) {
			c.notify("progress", struct {
				ID      json.RawMessage `json:"id"`
				Phase   string          `json:"phase"`
				Subject string          `json:"subject"`
				Done    int64           `json:"done"`
				Total   int64           `json:"total,omitempty"`
			}{c.id, e.Phase, e.Subject, e.Done, e.Total})
		})
	}
	return c
}

// begin starts to pass the call's events to the function send.
func (c *Call) begin(send func(progress.Event)) {
	events, sent := make(chan progress.Event, 64), make(chan struct{})
	c.events, c.sent = events, sent
	go func() {
		defer close(sent)
		for e := range events {
			send(e)
		}
	}()
}

// reportInterval is the minimum interval between events of the same phase.
const reportInterval = 100 * time.Millisecond

// Report sends a progress event if the client asked for notifications. If events of the same phase
// follow within reportInterval, it drops them, except the final event. It never blocks: if the
// client is slow to read, it drops events.
func (c *Call) Report(e progress.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		return
	}
	same := e.Phase == c.last.Phase && e.Subject == c.last.Subject
	if unfinished := e.Total == 0 || e.Done < e.Total; same && unfinished && time.Since(c.at) < reportInterval {
		return
	}
	select {
	case c.events <- e:
		c.last, c.at = e, time.Now()
	default:
	}
}

// notify sends a notification. It blocks until the client reads or the call is cancelled.
func (c *Call) notify(method string, params any) error {
	text, err := encode(notification{"2.0", method, params})
	if err != nil {
		return err
	}
	return c.to.send(c.ctx, message{text: text})
}

// finish sends the remaining output and events. After finish the call sends no notifications.
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
		<-c.sent
	}
}
