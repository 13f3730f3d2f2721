package client

import (
	"context"
	"math"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Mounts selects the file systems that a call applies to.
type Mounts struct {
	Root   bool
	Volume bool
}

// Recovered counts the interrupted changes to the volume that Mount has recovered. Mount either
// completed or undid each change.
type Recovered struct {
	Completed int
	Undone    int
}

// Mount mounts the selected file systems. File systems that are already mounted stay mounted.
// Precondition: the machine has no such disk.
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

// Quiesce kills all processes in the machine and flushes all disks, so that the machine can be
// stopped without data loss. The machine can't be used afterwards. Quiesce takes at most 20 s and
// is idempotent.
func (c *Client) Quiesce(ctx context.Context) error {
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Quiesce(ctx, connect.NewRequest(&agentv1.QuiesceRequest{}))
		return err
	})
	return fault.Wrap(err, "quiesce the machine's disks", "")
}

// Freeze flushes file systems and stops writes to them. The freeze ends with Thaw, after limit, or
// when the link breaks. limit is at most a minute. If the file systems can't be frozen, Freeze only
// flushes the volume and returns false.
func (c *Client) Freeze(ctx context.Context, m Mounts, limit time.Duration) (frozen bool, err error) {
	return c.freeze(ctx, &agentv1.FreezeRequest{Root: m.Root, Volume: m.Volume}, limit)
}

// Hold does the same as Freeze, and also stops all processes if the machine has its own kernel.
//
// If the link breaks, the processes stay stopped. They resume with Thaw, after limit, or when the
// next session renews the machine. If that session sets Identity.Held, the processes instead stay
// stopped until Thaw, without a time limit.
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

// Thaw allows writes again and resumes processes that Hold stopped. held reports whether the file
// systems stayed frozen from Freeze until this call. Repeated calls have no effect, but return
// false.
func (c *Client) Thaw(ctx context.Context) (held bool, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		answer, err := s.rpc.Thaw(ctx, connect.NewRequest(&agentv1.ThawRequest{}))
		if err == nil {
			held = answer.Msg.Held
		}
		return err
	})
	if err == nil {
		c.clearHeld()
	}
	return held, fault.Wrap(err, "thaw the machine's disks", "")
}

// clearHeld makes later sessions resume the processes when they renew the machine.
func (c *Client) clearHeld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.identity != nil && c.identity.Held {
		resumed := *c.identity
		resumed.Held = false
		c.identity = &resumed
	}
}

// Flush writes all data of the volume to its disk. If root is true, it also writes the data of the
// root.
func (c *Client) Flush(ctx context.Context, root bool) error {
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Flush(ctx, connect.NewRequest(&agentv1.FlushRequest{Root: root}))
		return err
	})
	return fault.Wrap(err, "flush the machine's disks", "")
}
