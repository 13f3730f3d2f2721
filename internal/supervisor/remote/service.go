package remote

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Readiness is the condition for a service to be ready. Exactly one of the text fields is set.
type Readiness struct {
	client.Readiness
	Command string // a command line for /bin/sh; the service is ready when it exits with 0
	Timeout time.Duration
}

// ServiceStart describes a new service.
type ServiceStart struct {
	Command program.Command
	Ready   *Readiness          // nil: it is ready when the program runs
	Ports   []store.Port        // are published while it runs
	Restart store.RestartPolicy // empty: never
}

// CheckRestart returns an error if there is no such restart policy. It allows an empty one.
func CheckRestart(p store.RestartPolicy) error {
	if p != "" && !slices.Contains(store.RestartPolicies, p) {
		return fault.Newf(fault.Invalid, "restart is %q: it must be %s, %s or %s", p, store.RestartNo, store.RestartOnFailure, store.RestartAlways)
	}
	return nil
}

// StartService starts a program in the background, and returns when the service is ready.
func (c *Client) StartService(ctx context.Context, name string, s ServiceStart) error {
	if err := s.Command.Check(); err != nil {
		return fault.Wrap(err, "start service", name)
	}
	req := &supervisorv1.StartServiceRequest{Name: name, Start: s.Command.Encode(false), Ports: portsOf(s.Ports), Restart: string(s.Restart)}
	if ready := s.Ready; ready != nil {
		req.Readiness = &supervisorv1.Readiness{
			File: ready.File, Tcp: ready.TCP, Http: ready.HTTP, Command: ready.Command,
			TimeoutMs: int32(ready.Timeout.Milliseconds()), IntervalMs: int32(ready.Interval.Milliseconds()),
		}
	}
	_, err := c.rpc.StartService(ctx, connect.NewRequest(req))
	return fromWire(ctx, err)
}

// StopService stops a service and its descendants. It does nothing if the service does not run.
func (c *Client) StopService(ctx context.Context, name string) error {
	_, err := c.rpc.StopService(ctx, connect.NewRequest(&supervisorv1.StopServiceRequest{Name: name}))
	return fromWire(ctx, err)
}

// PublishPorts publishes more ports of a running service.
func (c *Client) PublishPorts(ctx context.Context, name string, ports []store.Port) error {
	_, err := c.rpc.PublishPorts(ctx, connect.NewRequest(&supervisorv1.PublishPortsRequest{Name: name, Ports: portsOf(ports)}))
	return fromWire(ctx, err)
}

// UnpublishPorts closes published ports of a running service. guests are ports of the machine.
func (c *Client) UnpublishPorts(ctx context.Context, name string, guests []int) error {
	req := &supervisorv1.UnpublishPortsRequest{Name: name}
	for _, guest := range guests {
		req.Guests = append(req.Guests, uint32(guest))
	}
	_, err := c.rpc.UnpublishPorts(ctx, connect.NewRequest(req))
	return fromWire(ctx, err)
}

// ServiceReader receives the output of a service.
type ServiceReader struct {
	Lines   int // the number of last lines of each stream to start with; 0 means all kept output
	Out     io.Writer
	Errs    io.Writer
	Dropped func(out, errs int64) // receives the number of bytes that were lost before the next output
}

// ServiceEnd is the outcome of a service that has ended.
type ServiceEnd struct {
	EndedAt time.Time // zero if the service was paused with its workspace
	Result  store.ServiceResult
}

// FollowService copies the output of a service until the service ends. The error has kind NotFound
// if the service does not run.
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
			return serviceEndOf(m.End)
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

func serviceEndOf(m *supervisorv1.ServiceEnd) (ServiceEnd, error) {
	if m.Paused {
		return ServiceEnd{}, nil
	}
	e := ServiceEnd{EndedAt: time.Unix(0, m.EndedUnixNanos).UTC()}
	e.Result = store.ServiceResult{Stopped: m.Stopped, Broken: fault.Printable(m.Broken), Failed: fault.Printable(m.Failed)}
	if x := m.Exit; x != nil {
		exit, err := program.DecodeExit(x)
		if err != nil {
			return ServiceEnd{}, err
		}
		e.Result.Exit = exit
	}
	return e, nil
}
