package hostagent

import (
	"io"
	"math"
	"runtime"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// TestReadFileIsBounded reads files of up to the bound over the network, and larger ones without
// holding more than a small multiple of it.
func TestReadFileIsBounded(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	f.zeros = map[string]int64{"/fits": maxContent, "/long": maxContent + 1, "/endless": math.MaxInt64}
	for name, c := range dial(t, serve(t, a, Serving{})) {
		r, err := c.ReadFile(t.Context(), connect.NewRequest(&pb.ReadFileRequest{SandboxId: "x", Path: "/fits"}))
		if err != nil || len(r.Msg.Content) != maxContent {
			t.Errorf("%s: a file of %d bytes: %v", name, maxContent, err)
		}
	}
	for _, path := range []string{"/long", "/endless"} {
		var err error
		took := allocated(func() {
			_, err = a.ReadFile(t.Context(), connect.NewRequest(&pb.ReadFileRequest{SandboxId: "x", Path: path}))
		})
		if fault.KindOf(err) != fault.Exhausted || connect.CodeOf(toWire(err)) != connect.CodeResourceExhausted {
			t.Errorf("%s: %v", path, err)
		}
		if took > 8*maxContent {
			t.Errorf("%s: %d bytes were allocated", path, took)
		}
	}
}

// allocated returns how many bytes the process allocates while a function runs.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestListOfUsersIsBounded reads a list of users that has no end.
func TestListOfUsersIsBounded(t *testing.T) {
	f := newFakes()
	f.zeros = map[string]int64{"/etc/passwd": math.MaxInt64}
	took := allocated(func() { namesIn(t.Context(), fake{f}) })
	if took > 16*maxUserFile {
		t.Errorf("%d bytes were allocated", took)
	}
}

// TestCollectedIsNoReaderFrom holds the bound against io.Copy, which prefers other methods to Write.
func TestCollectedIsNoReaderFrom(t *testing.T) {
	left := 8
	to := collected{left: &left}
	if n, err := io.Copy(&to, io.LimitReader(zeros{}, 1<<20)); err == nil || n > 8 || to.buffer.Len() > 8 {
		t.Errorf("%d bytes were copied, %d are kept: %v", n, to.buffer.Len(), err)
	}
}
