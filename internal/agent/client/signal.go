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
	return c.SignalAfter(ctx, id, sig, 0)
}

// SignalAfter is like Signal, for a command whose input before the offset typed is older than the
// signal, even if it arrives later. On a terminal, SIGINT, SIGQUIT and SIGTSTP discard such input
// if the program has not read it and their keys discard input. Offset 0 means that the offset is
// unknown. Then no input is discarded.
func (c *Client) SignalAfter(ctx context.Context, id string, sig syscall.Signal, typed uint64) error {
	return c.signal(ctx, &agentv1.SignalRequest{ExecId: id, Signal: uint32(sig), Scope: agentv1.Scope_SCOPE_GROUP, Typed: typed})
}

// Kill kills all processes that a command has started.
func (c *Client) Kill(ctx context.Context, id string) error {
	return c.signal(ctx, &agentv1.SignalRequest{ExecId: id, Signal: uint32(syscall.SIGKILL), Scope: agentv1.Scope_SCOPE_TREE})
}

func (c *Client) signal(ctx context.Context, req *agentv1.SignalRequest) error {
	return fault.Wrap(c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Signal(ctx, connect.NewRequest(req))
		return err
	}), "signal command", req.ExecId)
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
