package serve

import (
	"context"
	"slices"
	"sync"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// terminals contains the clients of all terminals, and the holder of each terminal. The holder is
// the client that types. The zero value has no clients.
type terminals struct {
	mu   sync.Mutex
	open map[terminalID]*clients
}

// terminalID identifies a terminal.
type terminalID struct{ sandbox, tag string }

// clients are the clients of a terminal. The last client in holders holds the terminal. If it gives
// the terminal back, the client before it in the list holds the terminal.
type clients struct {
	all     map[*terminalClient]struct{}
	holders []*terminalClient
}

// terminalClient is a client of a terminal.
type terminalClient struct {
	id      terminalID
	by      control.Actor
	alone   bool          // it has sent hold, so no other client can type
	changed chan struct{} // gets a value after each change of the terminal
}

// join adds a client. A client that has started the terminal holds it. The caller must call leave.
func (ts *terminals) join(id terminalID, by control.Actor, started bool) *terminalClient {
	c := &terminalClient{id: id, by: by, changed: make(chan struct{}, 1)}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[id]
	if t == nil {
		if ts.open == nil {
			ts.open = map[terminalID]*clients{}
		}
		t = &clients{all: map[*terminalClient]struct{}{}}
		ts.open[id] = t
	}
	t.all[c] = struct{}{}
	if started {
		t.holders = append(t.holders, c)
	}
	t.report()
	return c
}

// leave removes a client. If it was the holder, the previous holder holds the terminal again.
func (ts *terminals) leave(c *terminalClient) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[c.id]
	delete(t.all, c)
	t.release(c)
	t.report()
	if len(t.all) == 0 {
		delete(ts.open, c.id)
	}
}

// hold makes a client the holder. Others can't type until it releases the terminal or leaves.
func (ts *terminals) hold(c *terminalClient) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[c.id]
	t.release(c)
	c.alone = true
	t.holders = append(t.holders, c)
	t.report()
}

// release gives the terminal back to the previous holder. It does nothing if the client does not
// hold the terminal.
func (ts *terminals) release(c *terminalClient) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[c.id]
	t.release(c)
	t.report()
}

// use fails with Precondition if another client holds the terminal for itself. Otherwise, a client
// that types becomes the holder.
func (ts *terminals) use(c *terminalClient, types bool) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[c.id]
	h := t.holder()
	switch {
	case h == c:
	case h != nil && h.alone:
		return fault.Newf(fault.Precondition, "%s has taken over the terminal", fault.Printable(h.by.Name)).WithHint(`send {"type": "hold"} to take it over`)
	case types:
		t.release(c)
		t.holders = append(t.holders, c)
		t.report()
	}
	return nil
}

// event returns the event for a client that names the holder of its terminal.
func (ts *terminals) event(c *terminalClient) event {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[c.id]
	others, yours, sameUser := len(t.all)-1, false, false
	e := event{Type: "holder", Others: &others, Yours: &yours, SameUser: &sameUser}
	if h := t.holder(); h != nil {
		e.Holder, e.HolderType = h.by.Name, h.by.Type
		yours, sameUser = h == c, h.by.Type == store.ActorUser && h.by.Type == c.by.Type && h.by.ID == c.by.ID
	}
	return e
}

// follow sends the event of a client, and sends it again after each change, until ctx is done.
func (ts *terminals) follow(ctx context.Context, c *terminalClient, send func(event) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		if send(ts.event(c)) != nil {
			return
		}
	}
}

// holder returns the client that types, or nil.
func (t *clients) holder() *terminalClient {
	if len(t.holders) == 0 {
		return nil
	}
	return t.holders[len(t.holders)-1]
}

func (t *clients) release(c *terminalClient) {
	c.alone = false
	t.holders = slices.DeleteFunc(t.holders, func(h *terminalClient) bool { return h == c })
}

// report makes follow send an event to each client.
func (t *clients) report() {
	for c := range t.all {
		select {
		case c.changed <- struct{}{}:
		default: // the client gets the latest state anyway
		}
	}
}
