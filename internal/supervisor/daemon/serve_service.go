package daemon

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
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
	ports, err := remote.PortsFrom(m.Ports)
	if err != nil {
		return nil, fault.Wrap(err, "start service", m.Name)
	}
	if err := s.daemon.startService(ctx, m.Name, m.Start, m.Readiness, ports); err != nil {
		return nil, fault.Wrap(err, "start service", m.Name)
	}
	return connect.NewResponse(&supervisorv1.StartServiceResponse{}), nil
}

// StopService stops a service. That it does not run is no error.
func (s *server) StopService(ctx context.Context, req *connect.Request[supervisorv1.StopServiceRequest]) (*connect.Response[supervisorv1.StopServiceResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if v := s.daemon.services.find(req.Msg.Name); v != nil {
		v.end()
	}
	return connect.NewResponse(&supervisorv1.StopServiceResponse{}), nil
}
