package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Readiness is a condition to wait for. At most one of File, TCP and HTTP is set. If none is set,
// the exec only needs to run.
type Readiness struct {
	File     string        // an absolute path
	TCP      string        // host:port in the machine
	HTTP     string        // a URL in the machine
	Interval time.Duration // the maximum time between two HTTP requests

	Exec  string            // ID of the exec that becomes ready. A port must belong to it. Empty: any.
	Stale string            // the stamp of File before the start of the exec. While File has this stamp, it does not count.
	Names map[string]string // names of other execs by ID, for the error about a port
}

// AwaitReady waits until the condition is true. The stamp changes when File is changed or replaced.
// Timeout: the condition was false for the whole time limit. Precondition: the exec has ended. Both
// errors contain the result of the last probe.
func (c *Client) AwaitReady(ctx context.Context, r Readiness, limit time.Duration) (stamp string, err error) {
	err = c.do(ctx, func(ctx context.Context, s *session) error {
		m, err := s.rpc.Ready(ctx, connect.NewRequest(&agentv1.ReadyRequest{
			File: r.File, Tcp: r.TCP, Http: r.HTTP, IntervalMs: uint32(max(1, r.Interval.Milliseconds())), LimitMs: uint32(max(1, limit.Milliseconds())),
			Exec: r.Exec, Stale: r.Stale, Names: r.Names,
		}))
		if err == nil {
			stamp = m.Msg.Stamp
		}
		return err
	})
	return stamp, fault.Wrap(err, "wait for readiness", "")
}
