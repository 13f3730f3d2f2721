package hostagent

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/rpc"
	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// TestSentBytes checks that watchers get the number of sent bytes of a running sandbox. This
// includes the bytes that it sends during a query of the sampler and just before a pause.
func TestSentBytes(t *testing.T) {
	f := newFakes()
	var bytes atomic.Int64
	var first sync.Once
	asked, answer := make(chan struct{}), make(chan struct{})
	f.usage = func(context.Context) (workspace.Usage, error) {
		u := workspace.Usage{SentBytes: bytes.Load(), SentSince: 7}
		first.Do(func() {
			close(asked)
			<-answer
		})
		return u, nil
	}
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := hostClient(t, serve(t, a, ServeOptions{}))
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	state := func() *hostpb.WatchResponse {
		t.Helper()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := c.Watch(ctx, connect.NewRequest(&hostpb.WatchRequest{SandboxId: "x"}))
		if err != nil || !s.Receive() {
			t.Fatal(err, s.Err())
		}
		return s.Msg()
	}
	expect := func(when string, want int64) {
		t.Helper()
		if m := state(); m.SentBytes != want || m.SentSinceUnixNano != 7 {
			t.Fatalf("%s: got %v, want %d", when, m, want)
		}
	}
	a.sampleAll()
	<-asked
	bytes.Store(1000)
	time.AfterFunc(100*time.Millisecond, func() { close(answer) }) // the query in progress answers 0
	expect("a running sandbox", 1000)
	bytes.Store(2000)
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	bytes.Store(3000)
	expect("a paused sandbox", 2000)

	all, err := c.Watch(ctx, connect.NewRequest(&hostpb.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for all.Receive() && all.Msg().SentBytes != 2000 {
	}
	if err := all.Err(); err != nil {
		t.Error("a stream of all sandboxes:", err)
	}
}

// TestSentBeforeReset checks that watchers get the bytes that a machine has sent just before a
// reset replaces the machine. Otherwise a team could reset its sandboxes often, and send without
// limit.
func TestSentBeforeReset(t *testing.T) {
	f := newFakes()
	var bytes, since atomic.Int64
	since.Store(7)
	f.usage = func(context.Context) (workspace.Usage, error) {
		return workspace.Usage{SentBytes: bytes.Load(), SentSince: since.Load()}, nil
	}
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := newCaller(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	reported := make(chan struct{})
	a.options.Operations["reset"] = operations.RemoteOperation{Needs: operations.ReplacesMachine, Method: rpc.Bind("reset", "", func(context.Context, echo, *rpc.Call) (echo, error) {
		select {
		case <-reported:
		case <-ctx.Done():
		}
		bytes.Store(0)
		since.Store(8)
		return echo{}, ctx.Err()
	})}
	all, err := c.Watch(ctx, connect.NewRequest(&hostpb.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for all.Receive() && !all.Msg().Synced {
	}
	s, err := a.find("x")
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.useReport = time.NewTimer(time.Hour) // no report after a delay
	s.useReportAt = time.Now()
	s.mu.Unlock()
	bytes.Store(5000)
	go func() {
		for all.Receive() {
			if m := all.Msg(); m.SentBytes == 5000 && m.SentSinceUnixNano == 7 {
				close(reported)
				return
			}
		}
	}()
	if _, _, _, _, err := c.call("x", "reset", "{}"); err != nil {
		t.Error(err)
	}
}
