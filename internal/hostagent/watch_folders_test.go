package hostagent

import (
	"context"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestWatchFolders checks that a client gets the changes of folders, and that this is no use of the
// sandbox.
func TestWatchFolders(t *testing.T) {
	clock, f := &manualClock{now: time.Unix(1_000_000, 0)}, newFakes()
	a := openAt(t, t.TempDir(), f, clock)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	c := hostClient(t, serve(t, a, ServeOptions{}))
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	go func() {
		for _, folders := range []uint64{0, 2} {
			select {
			case f.folders <- folders:
			case <-ctx.Done():
			}
		}
	}()
	stream, err := c.WatchFolders(ctx, connect.NewRequest(&hostpb.WatchFoldersRequest{SandboxId: "x", Paths: []string{"/a", "file:///b%FF"}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{0, 2} {
		if !stream.Receive() || stream.Msg().Changed != want {
			t.Fatalf("got %v, %v, want %d", stream.Msg(), stream.Err(), want)
		}
	}
	if want := []string{"/a", "/b\xff"}; !slices.Equal(f.watched, want) {
		t.Errorf("watches %q, want %q", f.watched, want)
	}
	clock.pass(time.Hour)
	if !mustFind(t, a, "x").pauseDue() {
		t.Error("the watch delays a pause")
	}
	a.drain()
	for stream.Receive() {
	}
	if code := connect.CodeOf(stream.Err()); code != connect.CodeUnavailable {
		t.Errorf("it ended with %v", stream.Err())
	}
}

// TestRefusedWatch checks calls for folders that can't be watched.
func TestRefusedWatch(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "paused"})
	if err := pause(t, a, "paused"); err != nil {
		t.Fatal(err)
	}
	c := hostClient(t, serve(t, a, ServeOptions{}))
	for _, one := range []struct {
		id, path string
		want     connect.Code
	}{
		{"paused", "/a", connect.CodeFailedPrecondition},
		{"unknown", "/a", connect.CodeNotFound},
		{"paused", "a", connect.CodeInvalidArgument},
		{"paused", "/\x00", connect.CodeInvalidArgument},
	} {
		stream, err := c.WatchFolders(t.Context(), connect.NewRequest(&hostpb.WatchFoldersRequest{SandboxId: one.id, Paths: []string{one.path}}))
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() || connect.CodeOf(stream.Err()) != one.want {
			t.Errorf("%s, %q: got %v, want %v", one.id, one.path, stream.Err(), one.want)
		}
	}
	if status, err := a.status(mustFind(t, a, "paused")); status != statusPaused || err != nil {
		t.Errorf("the sandbox is %s, %v", status, err)
	}
}

func mustFind(t *testing.T, a *Agent, id string) *sandbox {
	t.Helper()
	s, err := a.find(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
