package control

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Use returns the use of the actor's team in n intervals up to now.
func (c *Control) Use(ctx context.Context, by Actor, every time.Duration, n int) (samples store.Samples, now time.Time, err error) {
	now = c.clock().UTC()
	samples, err = c.store.Samples(ctx, by.TeamID, now.Add(time.Microsecond), every, n)
	return samples, now, err
}

// Days returns the use of the actor's team on each day from one day to another.
func (c *Control) Days(ctx context.Context, by Actor, from, to time.Time) ([]store.Day, error) {
	return c.store.Days(ctx, by.TeamID, from, to, c.clock().UTC())
}

// Now returns the time of the control plane.
func (c *Control) Now() time.Time { return c.clock().UTC() }
