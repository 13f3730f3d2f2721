package hostagent

import (
	"context"
	"net"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPassiveCalls checks that passive calls do not count as use. During such a call, the sandbox
// is not paused.
func TestPassiveCalls(t *testing.T) {
	f, h := newFakes(), &manualClock{now: time.Unix(1_000_000, 0)}
	a := openAt(t, t.TempDir(), f, h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 10})
	address := serve(t, a, ServeOptions{})
	client, end := control.NewClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}, secret.New(token))
	defer end()
	list := func(ctx context.Context) {
		t.Helper()
		if _, err := client.ListDir(ctx, connect.NewRequest(&pb.ListDirRequest{SandboxId: "x", Path: "/"})); err != nil {
			t.Fatal(err)
		}
	}
	looks := passive.Context(t.Context())
	s, err := a.find("x")
	if err != nil {
		t.Fatal(err)
	}
	h.pass(9 * time.Second)
	list(looks)
	h.pass(time.Second)
	if !s.pauseDue() {
		t.Error("a passive call counted as use")
	}
	used, err := s.use(looks)
	if err != nil {
		t.Fatal(err)
	}
	if s.pauseDue() {
		t.Error("it would be paused during a passive call")
	}
	used()
	list(t.Context())
	if s.pauseDue() {
		t.Error("a call did not count as use")
	}
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.prepareCall(looks, s, operations.NeedsMachine, false); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a passive call of a paused sandbox: %v", err)
	}
}

// TestWatchUse checks that a client that watches one sandbox gets the time of its use.
func TestWatchUse(t *testing.T) {
	h := &manualClock{now: time.Unix(1_000_000, 0)}
	a := openAt(t, t.TempDir(), newFakes(), h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	stream, err := hostClient(t, serve(t, a, ServeOptions{})).Watch(ctx, connect.NewRequest(&hostpb.WatchRequest{SandboxId: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && !stream.Msg().Synced {
	}
	h.pass(time.Minute)
	if err := ping(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && stream.Msg().LastActiveAtUnix != 1_000_060 {
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
}
