package control

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// HostState is the record of a host and whether the host answers.
type HostState struct {
	store.Host
	Online bool      // the last call to it has not failed
	SeenAt time.Time // when it last answered; the current time if the host is online
}

// HostStates returns all hosts, the oldest first. Hosts in the database that are not configured in
// this control plane are offline.
func (c *Control) HostStates(ctx context.Context) ([]HostState, error) {
	known, err := c.store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]HostState, 0, len(known))
	for _, h := range known {
		state := HostState{Host: h, SeenAt: h.SeenAt}
		a, called := c.answers[h.ID]
		if _, ours := c.hosts[h.ID]; ours && (a.ok || !called) {
			state.Online, state.SeenAt = true, c.clock().UTC()
		} else if !a.at.IsZero() {
			state.SeenAt = a.at
		}
		all = append(all, state)
	}
	return all, nil
}

// hostAnswer is the result of the last call to a host.
type hostAnswer struct {
	ok bool      // it has answered
	at time.Time // if ok is false: when it last answered; zero if it never did
}

// answered records whether a host has answered.
func (c *Control) answered(id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.answers[id]
	if err == nil || a.ok {
		a.at = c.clock().UTC() // until now
	}
	a.ok = err == nil
	c.answers[id] = a
}
