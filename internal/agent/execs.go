package agent

import (
	"context"
	"errors"
	"sync"
)

// execs are the execs that an agent knows, and the ids of those that it has forgotten: a request that comes late, over a session that broke, starts
// nothing a second time.
type execs struct {
	mu       sync.Mutex
	byID     map[string]*entry
	released map[string]bool
	order    []string // of released, the oldest first, from next on
	next     int
}

// entry is an exec from the moment that its id is taken.
type entry struct {
	started chan struct{} // closed when process is set
	process *process
}

// maxReleased bounds the ids that are remembered.
const maxReleased = 1024

func newExecs() execs { return execs{byID: map[string]*entry{}, released: map[string]bool{}} }

var (
	errKnown   = errors.New("an exec of this id is known already")
	errTooMany = errors.New("too many execs are known: release those that have ended")
	errUnknown = errors.New("no exec of this id is known")
)

// reserve takes an id for an exec that is about to be started.
func (e *execs) reserve(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byID[id] != nil || e.released[id] {
		return errKnown
	}
	if len(e.byID) >= maxExecs {
		return errTooMany
	}
	e.byID[id] = &entry{started: make(chan struct{})}
	return nil
}

// set gives a reserved id its process.
func (e *execs) set(id string, p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.byID[id]
	entry.process = p
	close(entry.started)
}

// get gives an exec, once it has been started where it is about to be; nil for an unknown one.
func (e *execs) get(ctx context.Context, id string) (*process, error) {
	e.mu.Lock()
	entry := e.byID[id]
	e.mu.Unlock()
	if entry == nil {
		return nil, nil
	}
	select {
	case <-entry.started:
		return entry.process, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// release takes an id out of use.
func (e *execs) release(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.released[id] {
		return
	}
	e.released[id] = true
	if len(e.order) < maxReleased {
		e.order = append(e.order, id)
		return
	}
	delete(e.released, e.order[e.next])
	e.order[e.next] = id
	e.next = (e.next + 1) % maxReleased
}

// forget forgets an exec that has ended.
func (e *execs) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byID, id)
}
