package client

import (
	"slices"
	"sync"
)

// ended are the ids of commands that have ended and that the agent still knows. Telling it with the next command spares a call for each.
type ended struct {
	mu  sync.Mutex
	ids []string
}

// maxEnded bounds what the agent keeps of commands that nobody will ask for: their output is up to two rings each.
const maxEnded = 4

// add takes an id, unless there are too many.
func (e *ended) add(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ids) >= maxEnded {
		return false
	}
	e.ids = append(e.ids, id)
	return true
}

// list gives the ids, which stay until they are dropped: releasing one twice does no harm.
func (e *ended) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ids)
}

// drop forgets ids of which the agent has been told.
func (e *ended) drop(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = slices.DeleteFunc(e.ids, func(id string) bool { return slices.Contains(ids, id) })
}
