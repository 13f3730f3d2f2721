package client

import (
	"context"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
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

// Forget has the agent forget the commands that have ended and that it still knows.
func (c *Client) Forget(ctx context.Context) error {
	ids := c.ended.list()
	for _, id := range ids {
		if err := c.release(ctx, id); err != nil {
			return fault.Wrap(err, "forget command", id)
		}
	}
	c.ended.drop(ids)
	return nil
}

// release has the agent forget one command.
func (c *Client) release(ctx context.Context, id string) error {
	return c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Release(ctx, connect.NewRequest(&agentv1.ReleaseRequest{ExecId: id}))
		return err
	})
}
