package client

import (
	"context"
	"math"
	"syscall"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Signal sends a signal to the process group of a command. If the command has a terminal, Signal
// sends it to the foreground group of the terminal.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	return c.signal(ctx, id, sig, agentv1.Scope_SCOPE_GROUP)
}

// Kill kills all processes that a command has started.
func (c *Client) Kill(ctx context.Context, id string) error {
	return c.signal(ctx, id, syscall.SIGKILL, agentv1.Scope_SCOPE_TREE)
}

func (c *Client) signal(ctx context.Context, id string, sig syscall.Signal, scope agentv1.Scope) error {
	return fault.Wrap(c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Signal(ctx, connect.NewRequest(&agentv1.SignalRequest{ExecId: id, Signal: uint32(sig), Scope: scope}))
		return err
	}), "signal command", id)
}

// LineLimit returns the longest line that the terminal of a command accepts now, in bytes without
// the line break. It returns 0 if there is no limit.
func (c *Client) LineLimit(ctx context.Context, id string) (limit int, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.rpc.Input(ctx, connect.NewRequest(&agentv1.InputRequest{ExecId: id}))
		if err == nil {
			limit = int(min(r.Msg.LineLimit, math.MaxInt32))
		}
		return err
	})
	return limit, fault.Wrap(err, "examine terminal", id)
}

// Resize sets the size of a command's terminal.
func (c *Client) Resize(ctx context.Context, id string, cols, rows int) error {
	return fault.Wrap(c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Resize(ctx, connect.NewRequest(&agentv1.ResizeRequest{ExecId: id, Cols: uint32(cols), Rows: uint32(rows)}))
		return err
	}), "resize terminal", id)
}
