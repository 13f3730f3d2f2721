package hostagent

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// TestReadFileIsBounded reads files of the maximum size over the network. It also checks that
// reading larger files fails, and allocates only a small multiple of that size.
func TestReadFileIsBounded(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	f.zeros = map[string]int64{"/fits": maxContent, "/long": maxContent + 1, "/endless": math.MaxInt64}
	for name, c := range dial(t, serve(t, a, ServeOptions{})) {
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

// TestRenamePath renames a file over the network, and checks errors with their details.
func TestRenamePath(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	f.files["/a"], f.files["/taken"] = []byte("a"), []byte("taken")
	c := hostClient(t, serve(t, a, ServeOptions{}))
	for _, call := range []struct {
		sandbox, from, to string
		want              connect.Code
	}{
		{"x", "", "/b", connect.CodeInvalidArgument}, {"x", "/a", "", connect.CodeInvalidArgument}, {"x", "a", "/b", connect.CodeInvalidArgument},
		{"x", "/a", "b", connect.CodeInvalidArgument}, {"x", "/a", "/b\x00", connect.CodeInvalidArgument}, {"x", "/a", strings.Repeat("/b", 4096), connect.CodeInvalidArgument},
		{"none", "/a", "/b", connect.CodeNotFound}, {"x", "/a", "/taken", connect.CodeAlreadyExists}, {"x", "/a", "/b", 0}, {"x", "/a", "/b", connect.CodeNotFound},
	} {
		_, err := c.RenamePath(t.Context(), connect.NewRequest(&hostv1.RenamePathRequest{SandboxId: call.sandbox, OldPath: call.from, NewPath: call.to}))
		if (err == nil) != (call.want == 0) || err != nil && connect.CodeOf(err) != call.want {
			t.Errorf("%.20q to %.20q: %v", call.from, call.to, err)
		}
		if e := (*connect.Error)(nil); errors.As(err, &e) && len(e.Details()) != 1 {
			t.Errorf("%.20q to %.20q: %d details", call.from, call.to, len(e.Details()))
		}
	}
	f.files["/caf\xe9 %"] = []byte("escaped")
	if _, err := c.RenamePath(t.Context(), connect.NewRequest(&hostv1.RenamePathRequest{SandboxId: "x", OldPath: "file:///caf%E9 %25", NewPath: "file:///%FF"})); err != nil {
		t.Error(err)
	}
	r, err := a.ReadFile(t.Context(), connect.NewRequest(&pb.ReadFileRequest{SandboxId: "x", Path: "file:///%FF"}))
	if err != nil || string(r.Msg.Content) != "escaped" {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := a.ReadFile(t.Context(), connect.NewRequest(&pb.ReadFileRequest{SandboxId: "x", Path: "file://%zz"})); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a wrong escape: %v", err)
	}
	delete(f.files, "/\xff")
	if string(f.files["/b"]) != "a" || string(f.files["/taken"]) != "taken" || len(f.files) != 2 {
		t.Errorf("the files are %q", f.files)
	}
}

// allocated returns how many bytes the process allocates while it calls the function do.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestUserFileIsBounded reads an endless /etc/passwd, and checks that the memory use is bounded.
func TestUserFileIsBounded(t *testing.T) {
	f := newFakes()
	f.zeros = map[string]int64{"/etc/passwd": math.MaxInt64}
	took := allocated(func() { readOwners(t.Context(), fake{f}) })
	if took > 16*maxUserFile {
		t.Errorf("%d bytes were allocated", took)
	}
}
