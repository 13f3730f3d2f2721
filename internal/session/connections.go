package session

import "sync"

// connections are those to keepers that nobody uses now: to connect takes longer than to ask. The nil ones keep none.
type connections struct {
	mu     sync.Mutex
	idle   map[string][]*Conn // by the ids of sessions
	closed bool
}

// maxIdle is how many are kept to one keeper.
const maxIdle = 2

// take gives one that nobody uses, nil where there is none.
func (c *connections) take(id string) *Conn {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.idle[id]
	if len(all) == 0 {
		return nil
	}
	c.idle[id] = all[:len(all)-1]
	return all[len(all)-1]
}

// keep keeps one for the next who asks, or closes it.
func (c *connections) keep(id string, one *Conn) {
	if c == nil || !c.add(id, one) {
		one.Close()
	}
}

func (c *connections) add(id string, one *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle[id]) >= maxIdle {
		return false
	}
	if c.idle == nil {
		c.idle = map[string][]*Conn{}
	}
	c.idle[id] = append(c.idle[id], one)
	return true
}

// forget closes those to one keeper.
func (c *connections) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

func (c *connections) drop(id string) {
	for _, one := range c.idle[id] {
		one.Close()
	}
	delete(c.idle, id)
}

// only closes those to keepers of other sessions than these.
func (c *connections) only(these map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.idle {
		if _, is := these[id]; !is {
			c.drop(id)
		}
	}
}

// close closes all, and keeps none from then on.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for id := range c.idle {
		c.drop(id)
	}
}
