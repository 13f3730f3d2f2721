package remote

import (
	"context"
	"errors"
	"io"
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

// ServiceReader is what a service that is followed is passed to.
type ServiceReader struct {
	Lines   int // begin with the last so many of each stream; 0: with all that is kept
	Out     io.Writer
	Errs    io.Writer
	Dropped func(out, errs int64) // is told how many bytes are missing in front of what comes next
}

// ServiceEnd is how a service ended.
type ServiceEnd struct {
	EndedAt time.Time // zero: it did not, but was paused with its workspace
	Result  store.ServiceResult
}

// FollowService passes on what a service prints, to its end. NotFound: it does not run, and nothing was passed on.
func (c *Client) FollowService(ctx context.Context, name string, to ServiceReader) (ServiceEnd, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := c.rpc.FollowService(ctx, connect.NewRequest(&supervisorv1.FollowServiceRequest{Name: name, Lines: int32(to.Lines)}))
	if err != nil {
		return ServiceEnd{}, fromWire(ctx, err)
	}
	defer stream.Close()
	for stream.Receive() {
		m := stream.Msg()
		if m.End != nil {
			return serviceEndOf(m.End), nil
		}
		if m.StdoutDropped > 0 || m.StderrDropped > 0 {
			to.Dropped(m.StdoutDropped, m.StderrDropped)
		}
		if err := errors.Join(write(to.Out, m.Stdout), write(to.Errs, m.Stderr)); err != nil {
			return ServiceEnd{}, err
		}
	}
	err = stream.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return ServiceEnd{}, fault.Wrap(fromWire(ctx, err), "follow service", name)
}

func serviceEndOf(m *supervisorv1.ServiceEnd) ServiceEnd {
	if m.Paused {
		return ServiceEnd{}
	}
	e := ServiceEnd{EndedAt: time.Unix(0, m.EndedUnixNanos).UTC()}
	e.Result = store.ServiceResult{Stopped: m.Stopped, Broken: fault.Printable(m.Broken), Failed: fault.Printable(m.Failed)}
	if x := m.Exit; x != nil {
		exit := exitOf(x)
		e.Result.ExitCode, e.Result.Signal, e.Result.NotRun, e.Result.OutOfMemory = exit.Code, exit.Signal, exit.Message, exit.OutOfMemory
	}
	return e
}
