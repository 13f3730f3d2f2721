package session

import "sync"

// connections keeps idle connections to session processes, because connecting takes longer than a
// request. A nil *connections is always empty.
type connections struct {
	mu     sync.Mutex
	idle   map[string][]*Conn // by session ID
	closed bool
}

// maxIdle is the maximum number of idle connections per session process.
const maxIdle = 2

// get removes and returns an idle connection. It returns nil if there is none.
func (c *connections) get(id string) *Conn {
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

// put adds an idle connection. It closes the connection instead if there are already enough.
func (c *connections) put(id string, one *Conn) {
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

// remove closes the connections to one session process.
func (c *connections) remove(id string) {
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

// retain closes the connections of all sessions except the given ones.
func (c *connections) retain(these map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.idle {
		if _, is := these[id]; !is {
			c.drop(id)
		}
	}
}

// close closes all connections. Later calls of put close their connections too.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for id := range c.idle {
		c.drop(id)
	}
}
