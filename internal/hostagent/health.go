package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	healthpb "github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1"
	"github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1/healthv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// health implements the gRPC health checking protocol.
type health struct{ agent *Agent }

// status returns the status of a service. It also returns a channel that is closed when the status
// might change.
func (h health) status(service string) (s healthpb.HealthCheckResponse_ServingStatus, changed <-chan struct{}) {
	serving, changed := h.agent.isServing()
	switch service {
	case "", hostagentv1connect.HostAgentServiceName, healthv1connect.HealthName:
	default:
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN, changed
	}
	if serving {
		return healthpb.HealthCheckResponse_SERVING, changed
	}
	return healthpb.HealthCheckResponse_NOT_SERVING, changed
}

// Check returns the health of a service.
func (h health) Check(_ context.Context, req *connect.Request[healthpb.HealthCheckRequest]) (*connect.Response[healthpb.HealthCheckResponse], error) {
	status, _ := h.status(req.Msg.Service)
	if status == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, fault.New(fault.NotFound, "check health", fault.Printable(req.Msg.Service), "there is no such service")
	}
	return connect.NewResponse(&healthpb.HealthCheckResponse{Status: status}), nil
}

// Watch streams the health of a service: first the current status, then each change. The stream
// ends when the client disconnects or the host agent shuts down.
func (h health) Watch(ctx context.Context, req *connect.Request[healthpb.HealthCheckRequest], to *connect.ServerStream[healthpb.HealthCheckResponse]) error {
	ending := false
	for reported, first := healthpb.HealthCheckResponse_UNKNOWN, true; ; first = false {
		status, changed := h.status(req.Msg.Service)
		if first || status != reported {
			reported = status
			if err := to.Send(&healthpb.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
		}
		if ending {
			return fault.New(fault.Unavailable, "watch health", "", "the host agent is shutting down")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.agent.draining.Done():
			ending = true // send NOT_SERVING as the last message
		}
	}
}
