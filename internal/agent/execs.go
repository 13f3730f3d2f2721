package agent

import (
	"context"
	"errors"
	"sync"
)

// execs contains the agent's execs and the IDs of released execs. A start request can arrive late
// over a broken session. The ID then prevents the exec from starting a second time.
type execs struct {
	mu       sync.Mutex
	byID     map[string]*entry
	released map[string]bool
	order    []string // the IDs in released, in a ring buffer whose oldest entry is at next
	next     int
}

// entry is an exec whose ID is reserved.
type entry struct {
	started chan struct{} // closed when process is set
	process *process
}

// maxReleased is how many released IDs the agent stores.
const maxReleased = 1024

func newExecs() execs { return execs{byID: map[string]*entry{}, released: map[string]bool{}} }

var (
	errKnown   = errors.New("an exec with this ID exists")
	errTooMany = errors.New("too many execs exist; release those that have ended")
	errUnknown = errors.New("no exec has this ID")
)

// reserve reserves an ID for an exec that is about to start.
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

// set sets the process of a reserved ID.
func (e *execs) set(id string, p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.byID[id]
	entry.process = p
	close(entry.started)
}

// get returns the process of an exec. If the exec is still starting, get waits for it. If there is
// no exec with the ID, get returns nil.
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

// running returns the process of an exec that runs, or nil if there is none.
func (e *execs) running(id string) *process {
	e.mu.Lock()
	entry := e.byID[id]
	e.mu.Unlock()
	if entry == nil {
		return nil
	}
	select {
	case <-entry.started:
	default:
		return nil
	}
	if p := entry.process; p != nil && !p.hasEnded() {
		return p
	}
	return nil
}

// release prevents an ID from being used again.
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

// forget removes an exec that has ended.
func (e *execs) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byID, id)
}
