package hostagent

import (
	"context"
	"net"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/tracing"
	"github.com/pyro-mcp/pyro/internal/tracing/tracingtest"
)

// TestTrace follows a trace from a request of a control plane to the program in a sandbox.
func TestTrace(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	collector := tracingtest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	stop, err := tracing.Start(t.Context(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(t.Context())
	ended := make(chan error)
	token := secret.New("a token of the test")
	go func() { ended <- a.Serve(serving, ServeOptions{Listener: listener, Token: token}) }()
	client, disconnect := control.NewClient(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}, token)

	ctx, span := tracing.Request(t.Context(), http.Header{}, "request")
	if _, err := client.Exec(ctx, connect.NewRequest(&pb.ExecRequest{SandboxId: "x", Cmd: "true"})); err != nil {
		t.Fatal(err)
	}
	span.End(nil)
	request := tracing.ID(ctx)
	ctx, span = tracing.Request(t.Context(), http.Header{}, "stream")
	stream, err := client.ExecStream(ctx, connect.NewRequest(&pb.ExecStreamRequest{SandboxId: "x", Cmd: "true"}))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	stream.Close()
	span.End(nil)
	disconnect()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	all := map[string]string{} // name and trace of each span, by ID
	for _, s := range collector.All() {
		all[s.ID] = s.Name + " " + s.Trace
	}
	for _, trace := range []string{request, tracing.ID(ctx)} {
		names := map[string]int{}
		for _, s := range collector.All() {
			if s.Trace == trace {
				names[s.Name]++
				if s.Parent != "" && all[s.Parent] == "" {
					t.Errorf("%+v has no parent", s)
				}
			}
		}
		if calls := names["hostagent.v1.HostAgentService/Exec"] + names["hostagent.v1.HostAgentService/ExecStream"]; len(names) != 3 || calls != 2 || names["exec"] != 1 {
			t.Errorf("got the spans %v, want the client, the server and the program", names)
		}
	}
}
