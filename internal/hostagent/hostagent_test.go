package hostagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

func create(t *testing.T, a *Agent, m *pb.CreateSandboxRequest) *pb.CreateSandboxResponse {
	t.Helper()
	r, err := a.CreateSandbox(t.Context(), connect.NewRequest(m))
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg
}

func list(t *testing.T, a *Agent) []*pb.SandboxInfo {
	t.Helper()
	r, err := a.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg.Sandboxes
}

func TestDefaultsAreFilledIn(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	r := create(t, a, &pb.CreateSandboxRequest{TeamId: "00000000-0000-0000-0000-000000000000", TemplateId: noUUID})
	if checkID(r.SandboxId) != nil || r.Status != statusRunning {
		t.Fatalf("made %v", r)
	}
	if spec := f.made["ws-"+r.SandboxId]; spec.VCPUs != 1 || spec.MemoryMB != 512 || spec.DiskSizeMB != 5120 || spec.Environment != DefaultEnvironment {
		t.Errorf("its machine is %+v", spec)
	}
	if got := a.all()[0].record(); got.DiskSizeMB != 5120 || got.Template != minimal {
		t.Errorf("its record is %+v", got)
	}
	for _, m := range []*pb.CreateSandboxRequest{
		{SandboxId: "../x"}, {SandboxId: ".x"}, {Vcpus: -1}, {MemoryMb: 1}, {TimeoutSec: -1}, {DiskSizeMb: 16<<10 + 1}, {DiskSizeMb: 63}, {DiskSizeMb: -1}, {TeamId: "x"}, {DefaultEnv: map[string]string{"A=B": ""}},
	} {
		if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(m)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v: %v", m, err)
		}
	}
	unknown := &pb.CreateSandboxRequest{TemplateId: "00000000-0000-0000-0000-000000000001"}
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(unknown)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown template: %v", err)
	}
}

func TestKnownIDIsCreatedOnce(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "one"})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f.count != 1 || len(list(t, a)) != 1 {
		t.Errorf("created %d machines for %d sandboxes", f.count, len(list(t, a)))
	}
	for range 2 {
		if _, err := a.DestroySandbox(t.Context(), connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: "one"})); err != nil {
			t.Error(err)
		}
	}
	if f.ids() != 0 || len(list(t, a)) != 0 {
		t.Errorf("%d leftover machines, %v", f.ids(), list(t, a))
	}
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	f.createErr = fault.Newf(fault.Unavailable, "no")
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x"})); fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Join(folder, sandboxesFolder))
	if err != nil || len(left) > 0 || len(list(t, a)) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	f.createErr = nil
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
}

func TestLimits(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{MemoryMB: 1024, VCPUs: 8})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "a"})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "b"})
	_, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "c"}))
	if fault.KindOf(err) != fault.Exhausted || fault.HintOf(err) == "" {
		t.Errorf("no room for memory: %v", err)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "a"}) // this sandbox exists already
	if err := a.destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err = a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "c", Vcpus: 8})); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("no room for processors: %v", err)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "c"})
}

// TestDiskLimits checks that a paused sandbox still reserves its disk. It also checks that a new
// sandbox is rejected if the host has less free disk space than DiskFreeMB.
func TestDiskLimits(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{DiskMB: 2*defaultDiskSizeMB + 100})
	for _, id := range []string{"a", "b"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	refused := func(what string, a *Agent, m *pb.CreateSandboxRequest) {
		t.Helper()
		_, err := a.CreateSandbox(t.Context(), connect.NewRequest(m))
		if fault.KindOf(err) != fault.Exhausted || fault.HintOf(err) == "" || !strings.Contains(err.Error(), "disk") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no room", a, &pb.CreateSandboxRequest{SandboxId: "c"})
	if err := pause(t, a, "a"); err != nil {
		t.Fatal(err)
	}
	refused("no room beside one that is paused", a, &pb.CreateSandboxRequest{SandboxId: "c", DiskSizeMb: 101})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "c", DiskSizeMb: 100})
	if err := resume(t, a, &pb.ResumeSandboxRequest{SandboxId: "a"}); err != nil { // the disk of this sandbox must be counted only once
		t.Error(err)
	}
	if err := a.destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "d"})

	folder := t.TempDir()
	create(t, open(t, folder, newFakes(), Limits{Folder: folder, DiskFreeMB: 1}), &pb.CreateSandboxRequest{})
	folder = t.TempDir()
	refused("more than the host has", open(t, folder, newFakes(), Limits{Folder: folder, DiskFreeMB: 1 << 40}), &pb.CreateSandboxRequest{})
}

// TestRestart closes a host agent, simulates an interrupted creation, and opens the next host
// agent.
func TestRestart(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "kept", TimeoutSec: 60, DefaultEnv: map[string]string{"A": "b"}, TeamId: noUUID})
	before := a.all()[0].record()
	if _, err := Open(t.Context(), Options{Folder: folder, Machines: f, Log: quiet}); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a second one on the same folder: %v", err)
	}
	half := record{SandboxID: "half", CreatedAt: time.Now(), Template: minimal}
	if err := a.writeRecord(half); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(t.Context(), Spec{SandboxID: "half"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if f.ids() != 2 {
		t.Fatalf("Close ended machines: %d still run", f.ids())
	}
	b := open(t, folder, f, Limits{})
	all := b.all()
	if len(all) != 1 || f.ids() != 1 {
		t.Fatalf("got %d sandboxes and %d machines after the restart", len(all), f.ids())
	}
	after := all[0].record()
	if !after.CreatedAt.Equal(before.CreatedAt) || after.TimeoutSec != 60 || after.DefaultEnv["A"] != "b" || after.WorkspaceID != before.WorkspaceID {
		t.Errorf("it was %+v and is %+v", before, after)
	}
}

func TestUseIsActivity(t *testing.T) {
	now := time.Unix(1000, 0)
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	pass := func(d time.Duration) {
		mu.Lock()
		now = now.Add(d)
		mu.Unlock()
	}
	s := (&Agent{options: Options{clock: clock}}).newSandbox(record{SandboxID: "x", WorkspaceID: "ws-x", TimeoutSec: 60, LastActive: now})
	end, err := s.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pass(time.Hour)
	if s.pauseDue() || !s.record().LastActive.Equal(clock()) {
		t.Error("it is inactive while it is used")
	}
	end()
	pass(time.Minute - 1)
	if s.pauseDue() {
		t.Error("it became inactive too early")
	}
	if pass(1); !s.pauseDue() {
		t.Error("it is never inactive")
	}
	s.rec.TimeoutSec = 0
	if s.pauseDue() {
		t.Error("it is inactive although it has no time limit")
	}
}

func TestTerminate(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	for _, id := range []string{"a", "b", "c"} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	address := serve(t, a, ServeOptions{})
	if _, err := dial(t, address)["grpc"].Terminate(t.Context(), connect.NewRequest(&pb.TerminateRequest{})); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Terminated():
	case <-t.Context().Done():
	}
	if f.ids() != 0 {
		t.Errorf("%d leftover machines", f.ids())
	}
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{})); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("created a sandbox during the end: %v", err)
	}
}

// TestErrors checks the code, kind and hint of each kind of error, over each protocol.
func TestErrors(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{MemoryMB: 600})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "ended"})
	f.stop("ws-ended")
	for name, c := range dial(t, serve(t, a, ServeOptions{})) {
		for _, e := range []struct {
			code connect.Code
			kind fault.Kind
			call func() error
		}{
			{connect.CodeNotFound, fault.NotFound, func() error {
				_, err := c.Exec(t.Context(), connect.NewRequest(&pb.ExecRequest{SandboxId: "none", Cmd: "true"}))
				return err
			}},
			{connect.CodeFailedPrecondition, fault.Precondition, func() error {
				_, err := c.PingSandbox(t.Context(), connect.NewRequest(&pb.PingSandboxRequest{SandboxId: "ended"}))
				return err
			}},
			{connect.CodeInvalidArgument, fault.Invalid, func() error {
				_, err := c.ReadFile(t.Context(), connect.NewRequest(&pb.ReadFileRequest{SandboxId: "ended", Path: "etc/passwd"}))
				return err
			}},
			{connect.CodeResourceExhausted, fault.Exhausted, func() error {
				_, err := c.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "more"}))
				return err
			}},
			{connect.CodeFailedPrecondition, fault.Precondition, func() error {
				_, err := c.PauseSandbox(t.Context(), connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: "ended"}))
				return err
			}},
			{connect.CodeFailedPrecondition, fault.Precondition, func() error {
				_, err := c.ResumeSandbox(t.Context(), connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: "ended"}))
				return err
			}},
			{connect.CodeNotFound, fault.NotFound, func() error {
				stream, err := c.ReadFileStream(t.Context(), connect.NewRequest(&pb.ReadFileStreamRequest{SandboxId: "none", Path: "/x"}))
				if err != nil {
					return err
				}
				defer stream.Close()
				for stream.Receive() {
					t.Error("got a result, want an error")
				}
				return stream.Err()
			}},
		} {
			err := e.call()
			detail := detailOf(err)
			if connect.CodeOf(err) != e.code || detail.Kind != string(e.kind) || detail.Hint == "" {
				t.Errorf("%s: %v, %v, want %v", name, err, detail, e.code)
			}
		}
	}
}

func detailOf(err error) *pb.ErrorDetail {
	var wire *connect.Error
	if errors.As(err, &wire) {
		for _, d := range wire.Details() {
			if v, err := d.Value(); err == nil {
				if detail, ok := v.(*pb.ErrorDetail); ok {
					return detail
				}
			}
		}
	}
	return &pb.ErrorDetail{}
}

// TestInterruptedWrite breaks off a stream in the middle of a file, and then completes another
// stream. It does so over each protocol.
func TestInterruptedWrite(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	meta := &pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Meta{Meta: &pb.WriteFileStreamMeta{SandboxId: "x", Path: "/f"}}}
	chunk := &pb.WriteFileStreamRequest{Content: &pb.WriteFileStreamRequest_Chunk{Chunk: []byte("half")}}
	for name, c := range dial(t, serve(t, a, ServeOptions{})) {
		ctx, cut := context.WithCancel(t.Context())
		stream := c.WriteFileStream(ctx)
		if err := errors.Join(stream.Send(meta), stream.Send(chunk)); err != nil {
			t.Fatal(name, err)
		}
		cut()
		if err := <-f.failed; err == nil {
			t.Errorf("%s: got no error for a truncated transfer", name)
		}
		if _, there := f.files["/f"]; there {
			t.Errorf("%s: the file was written", name)
		}
		whole := c.WriteFileStream(t.Context())
		if err := errors.Join(whole.Send(meta), whole.Send(chunk), whole.Send(chunk)); err != nil {
			t.Fatal(name, err)
		}
		if _, err := whole.CloseAndReceive(); err != nil {
			t.Fatal(name, err)
		}
		if err := <-f.failed; err != nil || string(f.files["/f"]) != "halfhalf" {
			t.Errorf("%s: wrote %q, %v", name, f.files["/f"], err)
		}
		delete(f.files, "/f")
	}
}

func TestPermissions(t *testing.T) {
	for _, c := range []struct {
		kind listing.Kind
		mode uint32
		want string
	}{
		{listing.File, 0o755, "-rwxr-xr-x"}, {listing.Folder, 0o1777, "drwxrwxrwt"}, {listing.Link, 0o777, "lrwxrwxrwx"}, {listing.File, 0o4755, "-rwsr-xr-x"},
		{listing.File, 0o6644, "-rwSr-Sr--"}, {listing.Folder, 0o1000, "d--------T"}, {listing.Other, 0, "?---------"},
		{listing.Pipe, 0o644, "prw-r--r--"}, {listing.Socket, 0o755, "srwxr-xr-x"}, {listing.CharDevice, 0o666, "crw-rw-rw-"}, {listing.BlockDevice, 0o660, "brw-rw----"},
	} {
		if got := permissions(c.kind, c.mode); got != c.want {
			t.Errorf("%o: %s, want %s", c.mode, got, c.want)
		}
	}
}
