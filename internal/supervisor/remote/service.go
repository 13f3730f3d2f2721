package remote

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Readiness is when a service is ready: one of its texts is set.
type Readiness struct {
	client.Readiness
	Command string // for /bin/sh: it is when that exits with 0
	Timeout time.Duration
}

// StartService starts a program in the background, and returns when it is ready: where ready is nil, when it runs. As long as it runs, ports of the machine are
// ports of the host.
func (c *Client) StartService(ctx context.Context, name string, command client.Command, ready *Readiness, ports []store.Port, secrets ...SecretEnv) error {
	if err := checkCommand(command); err != nil {
		return fault.Wrap(err, "start service", name)
	}
	req := &supervisorv1.StartServiceRequest{Name: name, Start: startOf(command, secrets, false), Ports: portsOf(ports)}
	if ready != nil {
		req.Readiness = &supervisorv1.Readiness{
			File: ready.File, Tcp: ready.TCP, Http: ready.HTTP, Command: ready.Command,
			TimeoutMs: int32(ready.Timeout.Milliseconds()), IntervalMs: int32(ready.Interval.Milliseconds()),
		}
	}
	_, err := c.rpc.StartService(ctx, connect.NewRequest(req))
	return fromWire(ctx, err)
}

// StopService ends a service with all that it started. That it does not run is no error.
func (c *Client) StopService(ctx context.Context, name string) error {
	_, err := c.rpc.StopService(ctx, connect.NewRequest(&supervisorv1.StopServiceRequest{Name: name}))
	return fromWire(ctx, err)
}
