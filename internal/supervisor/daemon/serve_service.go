package daemon

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const maxReadyMS = 3_600_000

// StartService starts a service.
func (s *server) StartService(ctx context.Context, req *connect.Request[supervisorv1.StartServiceRequest]) (*connect.Response[supervisorv1.StartServiceResponse], error) {
	done, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m := req.Msg
	if err := remote.CheckServiceName(m.Name); err != nil {
		return nil, err
	}
	if m.Start == nil || len(m.Start.Argv) == 0 {
		return nil, fault.New(fault.Invalid, "start service", m.Name, "there is no program")
	}
	if r := m.Readiness; r != nil && (r.TimeoutMs < 1 || r.TimeoutMs > maxReadyMS || r.IntervalMs < 1 || r.IntervalMs > maxReadyMS) {
		return nil, fault.New(fault.Invalid, "start service", m.Name, "a time is out of its range")
	}
	if err := remote.CheckRestart(store.RestartPolicy(m.Restart)); err != nil {
		return nil, fault.Wrap(err, "start service", m.Name)
	}
	ports, err := remote.PortsFrom(m.Ports)
	if err != nil {
		return nil, fault.Wrap(err, "start service", m.Name)
	}
	if err := s.daemon.startService(ctx, m, ports); err != nil {
		return nil, fault.Wrap(err, "start service", m.Name)
	}
	return connect.NewResponse(&supervisorv1.StartServiceResponse{}), nil
}

// StopService stops a service. It does nothing if the service does not run.
func (s *server) StopService(ctx context.Context, req *connect.Request[supervisorv1.StopServiceRequest]) (*connect.Response[supervisorv1.StopServiceResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if v, ok := s.daemon.findService(req.Msg.Name); ok {
		v.end()
	}
	return connect.NewResponse(&supervisorv1.StopServiceResponse{}), nil
}

// PublishPorts publishes more ports of a service.
func (s *server) PublishPorts(ctx context.Context, req *connect.Request[supervisorv1.PublishPortsRequest]) (*connect.Response[supervisorv1.PublishPortsResponse], error) {
	ports, err := remote.PortsFrom(req.Msg.Ports)
	if err == nil {
		err = s.changePorts(ctx, req.Msg.Name, func(v *service) error { return v.publish(ports) })
	}
	return connect.NewResponse(&supervisorv1.PublishPortsResponse{}), fault.Wrap(err, "publish ports of service", fault.Printable(req.Msg.Name))
}

// UnpublishPorts closes published ports of a service.
func (s *server) UnpublishPorts(ctx context.Context, req *connect.Request[supervisorv1.UnpublishPortsRequest]) (*connect.Response[supervisorv1.UnpublishPortsResponse], error) {
	err := s.changePorts(ctx, req.Msg.Name, func(v *service) error { return v.unpublishSome(req.Msg.Guests) })
	return connect.NewResponse(&supervisorv1.UnpublishPortsResponse{}), fault.Wrap(err, "unpublish ports of service", fault.Printable(req.Msg.Name))
}

// changePorts calls the function change with a running service, and records its ports.
func (s *server) changePorts(ctx context.Context, name string, change func(*service) error) error {
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	v, ok := s.daemon.findService(name)
	if !ok {
		return errNotRunning
	}
	select {
	case <-v.opened:
	case <-v.done:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := change(v); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.save()
	return nil
}
