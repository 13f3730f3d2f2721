package hostagent

import (
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	healthpb "github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1"
	"github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1/healthv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// TestWatchHealth checks that watchers get the status of the host agent, and its change at the
// shutdown. For an unknown service they must get SERVICE_UNKNOWN.
func TestWatchHealth(t *testing.T) {
	const serving, ending, unknown = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	a := open(t, t.TempDir(), newFakes(), Limits{})
	address := serve(t, a, ServeOptions{})
	c := healthv1connect.NewHealthClient(&http.Client{Transport: withToken{plain(t)}}, "http://"+address, connect.WithGRPC())
	all := map[string][]healthpb.HealthCheckResponse_ServingStatus{
		"": {serving, ending}, hostagentv1connect.HostAgentServiceName: {serving, ending}, healthv1connect.HealthName: {serving, ending}, "none": {unknown},
	}
	watched := map[string]*connect.ServerStreamForClient[healthpb.HealthCheckResponse]{}
	for service, want := range all {
		stream, err := c.Watch(t.Context(), connect.NewRequest(&healthpb.HealthCheckRequest{Service: service}))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if !stream.Receive() || stream.Msg().Status != want[0] {
			t.Fatalf("%q: %v, %v", service, stream.Msg(), stream.Err())
		}
		watched[service] = stream
		r, err := c.Check(t.Context(), connect.NewRequest(&healthpb.HealthCheckRequest{Service: service}))
		if want[0] == unknown {
			if connect.CodeOf(err) != connect.CodeNotFound || detailOf(err).Kind != string(fault.NotFound) {
				t.Errorf("%q: %v %v", service, r, err)
			}
		} else if err != nil || r.Msg.Status != serving {
			t.Errorf("%q: %v %v", service, r, err)
		}
	}
	if _, err := dial(t, address)["grpc"].Terminate(t.Context(), connect.NewRequest(&pb.TerminateRequest{})); err != nil {
		t.Fatal(err)
	}
	for service, stream := range watched {
		reported := all[service][:1:1]
		for stream.Receive() {
			reported = append(reported, stream.Msg().Status)
		}
		if !slices.Equal(reported, all[service]) || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
			t.Errorf("%q: reported %v, and at the end %v", service, reported, stream.Err())
		}
	}
}
