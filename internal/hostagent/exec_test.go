package hostagent

import (
	"io"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

func TestExecIsBounded(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	f.run = func(w io.Writer) { io.WriteString(w, "said") }
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	r, err := c.Exec(t.Context(), connect.NewRequest(&pb.ExecRequest{SandboxId: "x", Cmd: "say"}))
	if err != nil || string(r.Msg.Stdout) != "said" || r.Msg.ExitCode != 3 {
		t.Errorf("%v %v", r, err)
	}
	stream, err := c.ExecStream(t.Context(), connect.NewRequest(&pb.ExecStreamRequest{SandboxId: "x", Cmd: "say"}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var events []string
	for stream.Receive() {
		switch e := stream.Msg().Event.(type) {
		case *pb.ExecStreamResponse_Start:
			events = append(events, "start")
			if e.Start.Pid != 7 {
				t.Errorf("pid %d", e.Start.Pid)
			}
		case *pb.ExecStreamResponse_Data:
			events = append(events, string(e.Data.GetStdout()))
		case *pb.ExecStreamResponse_End:
			events = append(events, "end")
		}
	}
	if want := []string{"start", "said", "end"}; stream.Err() != nil || len(events) != 3 || events[0] != want[0] || events[1] != want[1] || events[2] != want[2] {
		t.Errorf("%v %v", events, stream.Err())
	}
	for _, m := range []*pb.ExecRequest{{SandboxId: "x"}, {SandboxId: "x", Cmd: "a", TimeoutSec: -1}, {SandboxId: "x", Cmd: "a", Cwd: "b"}, {SandboxId: "x", Cmd: "a\x00"}} {
		if _, err := a.Exec(t.Context(), connect.NewRequest(m)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestExecTimeLimit checks that the time limit of a command is 30 s by default, and that background
// programs have no limit.
func TestExecTimeLimit(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := dial(t, serve(t, a, ServeOptions{}))["grpc"]
	for _, l := range []struct {
		sec  int32
		want time.Duration
	}{{0, 30 * time.Second}, {5, 5 * time.Second}, {maxTimeoutSec, 7 * 24 * time.Hour}} {
		f.ran = nil
		if _, err := c.Exec(t.Context(), connect.NewRequest(&pb.ExecRequest{SandboxId: "x", Cmd: "say", TimeoutSec: l.sec})); err != nil {
			t.Fatal(err)
		}
		stream, err := c.ExecStream(t.Context(), connect.NewRequest(&pb.ExecStreamRequest{SandboxId: "x", Cmd: "say", TimeoutSec: l.sec}))
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
		}
		if len(f.ran) != 2 || f.ran[0].Timeout != l.want || f.ran[1].Timeout != l.want {
			t.Errorf("%d seconds are %+v", l.sec, f.ran)
		}
	}
	if _, err := c.StartBackground(t.Context(), connect.NewRequest(&pb.StartBackgroundRequest{SandboxId: "x", Cmd: "say", Tag: "b"})); err != nil {
		t.Fatal(err)
	}
	if got := f.shell("b").command.Timeout; got != 0 {
		t.Errorf("in the background it has %v", got)
	}
}
