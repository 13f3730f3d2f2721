package control

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// EventsAfter returns the oldest events of the actor's team after an ID, at most limit. If missed
// is true, events were removed before the reader got them. Then the reader must list all records
// again, and continue after the ID in last.
func (c *Control) EventsAfter(ctx context.Context, by Actor, after int64, limit int) (all []store.Event, last int64, missed bool, err error) {
	return c.store.Events(ctx, by.TeamID, after, limit)
}

// LastEvent returns the ID of the latest event of the actor's team.
func (c *Control) LastEvent(ctx context.Context, by Actor) (int64, error) {
	return c.store.LastEvent(ctx, by.TeamID)
}

// ReadEvents returns a channel that receives a value when the actor's team has new events. The
// caller must call end.
func (c *Control) ReadEvents(by Actor) (changed <-chan struct{}, end func()) {
	return c.store.ReadEvents(by.TeamID)
}
