package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Readiness is what to wait for: one of its texts is set.
type Readiness struct {
	File     string        // an absolute path
	TCP      string        // host:port, seen from the machine
	HTTP     string        // a URL, seen from the machine
	Interval time.Duration // at most between two requests to HTTP
}

// AwaitReady waits in the machine until a file is there or somebody answers, limit at most: then the error is of kind Timeout, and says what was seen last.
func (c *Client) AwaitReady(ctx context.Context, r Readiness, limit time.Duration) error {
	return fault.Wrap(c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Ready(ctx, connect.NewRequest(&agentv1.ReadyRequest{
			File: r.File, Tcp: r.TCP, Http: r.HTTP, IntervalMs: uint32(max(1, r.Interval.Milliseconds())), LimitMs: uint32(max(1, limit.Milliseconds())),
		}))
		return err
	}), "wait for it to be ready", "")
}
