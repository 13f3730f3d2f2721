package control

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Use returns the resource use of the actor's team in the last n intervals.
func (c *Control) Use(ctx context.Context, by Actor, every time.Duration, n int) (samples store.Samples, now time.Time, err error) {
	now = c.clock().UTC()
	samples, err = c.store.Samples(ctx, by.TeamID, now.Add(time.Microsecond), every, n)
	return samples, now, err
}

// Days returns the resource use of the actor's team on each day between two days.
func (c *Control) Days(ctx context.Context, by Actor, from, to time.Time) ([]store.Day, error) {
	return c.store.Days(ctx, by.TeamID, from, to, c.clock().UTC())
}

// Now returns the time of the control plane.
func (c *Control) Now() time.Time { return c.clock().UTC() }
