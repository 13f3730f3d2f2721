package client

import (
	"context"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// endedCommands are the IDs of ended commands whose state the agent still stores. The next start
// request releases them, which saves one call per command.
type endedCommands struct {
	mu  sync.Mutex
	ids []string
}

// maxEnded is the maximum number of ended commands that the agent has to store for the client. Each
// one can have two full output buffers.
const maxEnded = 4

// add adds an ID. If the list already has maxEnded IDs, add returns false.
func (e *endedCommands) add(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ids) >= maxEnded {
		return false
	}
	e.ids = append(e.ids, id)
	return true
}

// list returns the IDs. They stay in the list until drop. Releasing an ID twice has no effect.
func (e *endedCommands) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ids)
}

// drop removes IDs that the agent has released.
func (e *endedCommands) drop(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = slices.DeleteFunc(e.ids, func(id string) bool { return slices.Contains(ids, id) })
}

// ReleaseEnded releases all ended commands that the agent still stores.
func (c *Client) ReleaseEnded(ctx context.Context) error {
	ids := c.ended.list()
	for _, id := range ids {
		if err := c.release(ctx, id); err != nil {
			return fault.Wrap(err, "release command", id)
		}
	}
	c.ended.drop(ids)
	return nil
}

// release makes the agent forget a command immediately, or when the command ends.
func (c *Client) release(ctx context.Context, id string) error {
	return c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Release(ctx, connect.NewRequest(&agentv1.ReleaseRequest{ExecId: id}))
		return err
	})
}
