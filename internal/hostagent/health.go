package hostagent

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	healthpb "github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1"
	"github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1/healthv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// health is gRPC's health checking.
type health struct{ agent *Agent }

func (h health) status(service string) (healthpb.HealthCheckResponse_ServingStatus, bool) {
	switch service {
	case "", hostagentv1connect.HostAgentServiceName, healthv1connect.HealthName:
	default:
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN, false
	}
	if h.agent.serving() {
		return healthpb.HealthCheckResponse_SERVING, true
	}
	return healthpb.HealthCheckResponse_NOT_SERVING, true
}

// Check tells whether a service can be used.
func (h health) Check(_ context.Context, req *connect.Request[healthpb.HealthCheckRequest]) (*connect.Response[healthpb.HealthCheckResponse], error) {
	status, known := h.status(req.Msg.Service)
	if !known {
		return nil, fault.New(fault.NotFound, "check health", fault.Printable(req.Msg.Service), "there is no such service")
	}
	return connect.NewResponse(&healthpb.HealthCheckResponse{Status: status}), nil
}

// watchEvery is how soon a change is told.
const watchEvery = 250 * time.Millisecond

// Watch tells it now and whenever it changes, until the client goes or the host agent ends.
func (h health) Watch(ctx context.Context, req *connect.Request[healthpb.HealthCheckRequest], to *connect.ServerStream[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	leaving := false
	for told, first := healthpb.HealthCheckResponse_UNKNOWN, true; ; first = false {
		if status, _ := h.status(req.Msg.Service); first || status != told {
			told = status
			if err := to.Send(&healthpb.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
		}
		if leaving {
			return fault.New(fault.Unavailable, "watch health", "", "the host agent ends")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.agent.leaving.Done():
			leaving = true // told as the last
		}
	}
}
