package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Readiness is a condition to wait for. Exactly one of File, TCP and HTTP must be set.
type Readiness struct {
	File     string        // an absolute path
	TCP      string        // host:port in the machine
	HTTP     string        // a URL in the machine
	Interval time.Duration // the maximum time between two HTTP requests
}

// AwaitReady waits until the condition is true. Timeout: the condition was false for the whole time
// limit. The error then contains the result of the last probe.
func (c *Client) AwaitReady(ctx context.Context, r Readiness, limit time.Duration) error {
	return fault.Wrap(c.do(ctx, func(ctx context.Context, s *session) error {
		_, err := s.rpc.Ready(ctx, connect.NewRequest(&agentv1.ReadyRequest{
			File: r.File, Tcp: r.TCP, Http: r.HTTP, IntervalMs: uint32(max(1, r.Interval.Milliseconds())), LimitMs: uint32(max(1, limit.Milliseconds())),
		}))
		return err
	}), "wait for readiness", "")
}
