package session

import (
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
)

// cache contains the session files that a manager has read. Reading them again would take longer
// than most operations.
type cache struct {
	mu  sync.Mutex
	all map[string]cacheEntry // by session ID
}

// cacheEntry is the spec and state of a session. The state is valid until the state file changes.
type cacheEntry struct {
	spec  Spec
	state State
	stamp disk.Stamp // stamp of the state file
}

// get returns a cached spec and state if the state file has not changed.
func (c *cache) get(f Folder) (Spec, State, bool) {
	c.mu.Lock()
	r, known := c.all[f.id()]
	c.mu.Unlock()
	if !known {
		return Spec{}, State{}, false
	}
	if now, err := disk.StampOf(f.path(stateName)); err != nil || now != r.stamp {
		return Spec{}, State{}, false
	}
	if r.spec.LogFolder != "" {
		r.state.LogError = f.logError()
	}
	return r.spec, r.state, true
}

// read returns the spec and state of a session, from the cache if possible. began is false if the
// session process has not written a state yet. NotFound: there is no such session.
func (c *cache) read(f Folder) (spec Spec, state State, began bool, err error) {
	if spec, state, ok := c.get(f); ok {
		return spec, state, true, nil
	}
	before, _ := disk.StampOf(f.path(stateName)) // zero if there is no state file yet
	if spec, err = f.Spec(); err == nil {
		state, began, err = f.State()
	}
	if err != nil || !began {
		c.remove(f.id())
		return spec, state, began, err
	}
	// If the file is replaced during the read, its stamp changes. But a stamp is only as precise as
	// the clock of the file system: a new file can be written twice within one tick. So only cache
	// older files.
	if after, err := disk.StampOf(f.path(stateName)); err == nil && after == before && time.Since(time.Unix(0, after.CTime)) > stampTick {
		c.put(f.id(), cacheEntry{spec, state, after})
	}
	return spec, state, began, nil
}

// stampTick is longer than one tick of any file system's clock.
const stampTick = 50 * time.Millisecond

func (c *cache) put(id string, r cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]cacheEntry{}
	}
	c.all[id] = r
}

func (c *cache) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, id)
}

// retain removes all sessions from the cache except the given ones.
func (c *cache) retain(these map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.all {
		if _, is := these[id]; !is {
			delete(c.all, id)
		}
	}
}
