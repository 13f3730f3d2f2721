package client

import (
	"context"
	"math"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Mounts says which of a machine's file systems is meant.
type Mounts struct {
	Root   bool
	Volume bool
}

// Recovered tells what became of changes of the volume that a crash had cut short. Each of them is whole, or as if it had never begun.
type Recovered struct {
	Completed int
	Undone    int
}

// Mount mounts file systems. What is mounted already stays as it is. Precondition: the machine has no such disk.
func (c *Client) Mount(ctx context.Context, m Mounts) (Recovered, error) {
	var r Recovered
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		answer, err := s.rpc.Mount(ctx, connect.NewRequest(&agentv1.MountRequest{Root: m.Root, Volume: m.Volume}))
		if err == nil {
			r = Recovered{int(answer.Msg.Completed), int(answer.Msg.Undone)}
		}
		return err
	})
	return r, fault.Wrap(err, "mount the machine's disks", "")
}

// Quiesce kills all processes in the machine and has everything on its disks: nothing is lost then with the end of the machine, which is good for nothing else
// any more. It takes at most 20 s. Idempotent.
func (c *Client) Quiesce(ctx context.Context) error {
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Quiesce(ctx, connect.NewRequest(&agentv1.QuiesceRequest{}))
		return err
	})
	return fault.Wrap(err, "bring the machine's disks to rest", "")
}

// Freeze flushes file systems and stops all writing to them: until Thaw, until limit is over, at most a minute, or until the link is lost. Where they can't be
// frozen the volume is flushed, and frozen is false.
func (c *Client) Freeze(ctx context.Context, m Mounts, limit time.Duration) (frozen bool, err error) {
	return c.freeze(ctx, &agentv1.FreezeRequest{Root: m.Root, Volume: m.Volume}, limit)
}

// Hold is Freeze, and has processes stand still, too, where the machine has a kernel of its own: also where the link is lost, until the next session
// has renewed the machine (and after that, with Identity.Held), or the limit is over.
func (c *Client) Hold(ctx context.Context, m Mounts, limit time.Duration) (frozen bool, err error) {
	return c.freeze(ctx, &agentv1.FreezeRequest{Root: m.Root, Volume: m.Volume, Processes: true}, limit)
}

func (c *Client) freeze(ctx context.Context, req *agentv1.FreezeRequest, limit time.Duration) (frozen bool, err error) {
	req.LimitMs = uint32(min(max(limit.Milliseconds(), 0), math.MaxUint32))
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		answer, err := s.rpc.Freeze(ctx, connect.NewRequest(req))
		if err == nil {
			frozen = answer.Msg.Frozen
		}
		return err
	})
	return frozen, fault.Wrap(err, "freeze the machine's disks", "")
}

// Thaw lets writing go on, and processes that are held. held: file systems had been frozen all the time since Freeze. Idempotent, but for that.
func (c *Client) Thaw(ctx context.Context) (held bool, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		answer, err := s.rpc.Thaw(ctx, connect.NewRequest(&agentv1.ThawRequest{}))
		if err == nil {
			held = answer.Msg.Held
		}
		return err
	})
	if err == nil {
		c.letGo()
	}
	return held, fault.Wrap(err, "thaw the machine's disks", "")
}

// letGo has the sessions to come hold nothing.
func (c *Client) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.identity != nil && c.identity.Held {
		free := *c.identity
		free.Held = false
		c.identity = &free
	}
}

// Flush has everything that was written to the volume on the disk, and to the root where that is asked for.
func (c *Client) Flush(ctx context.Context, root bool) error {
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Flush(ctx, connect.NewRequest(&agentv1.FlushRequest{Root: root}))
		return err
	})
	return fault.Wrap(err, "flush the machine's disks", "")
}
