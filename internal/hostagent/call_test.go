package hostagent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/rpc"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

type echo struct {
	WorkspaceID string            `json:"workspace_id"`
	Text        string            `json:"text,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	User        string            `json:"user,omitempty"`
}

// callable are operations for tests.
func callable() map[string]operations.RemoteOperation {
	say := rpc.Bind("say", "", func(_ context.Context, req echo, c *rpc.Call) (echo, error) {
		c.Report(progress.Event{Phase: "saying", Subject: "it"})
		fmt.Fprint(c.Stdout, strings.Repeat("o", maxChunk+1))
		fmt.Fprint(c.Stderr, "e")
		return req, nil
	})
	fail := rpc.Bind("fail", "", func(_ context.Context, req echo, _ *rpc.Call) (echo, error) {
		return req, fault.New(fault.Exists, "start", req.WorkspaceID, "it is in %s", req.WorkspaceID).
			WithHint("%s", fault.Act("service_stop", "pyro workspace service stop %s x", req.WorkspaceID).Taking("service_name %q", "x"))
	})
	wait := rpc.Bind("wait", "", func(ctx context.Context, req echo, _ *rpc.Call) (echo, error) {
		<-ctx.Done()
		return req, context.Cause(ctx)
	})
	status := rpc.Bind("status", "", func(_ context.Context, req echo, _ *rpc.Call) (*pyro.Workspace, error) {
		return &pyro.Workspace{
			WorkspaceID: req.WorkspaceID, Labels: map[string]string{sandboxLabel: "x", creationLabel: "y", "own": "z"},
			WorkspaceSeed: pyro.WorkspaceSeed{ForkedFrom: req.Text},
		}, nil
	})
	activity := rpc.Bind("activity", "", func(_ context.Context, req echo, _ *rpc.Call) (*pyro.WorkspaceActivity, error) {
		return &pyro.WorkspaceActivity{WorkspaceID: req.WorkspaceID, Labels: map[string]string{sandboxLabel: "x", creationLabel: "y", "own": "z"}}, nil
	})
	return map[string]operations.RemoteOperation{
		"activity": {Method: activity, Needs: operations.NeedsRecords},
		"say":      {Method: say, Needs: operations.NeedsMachine}, "fail": {Method: fail, Needs: operations.NeedsMachine}, "wait": {Method: wait, Needs: operations.NeedsMachine},
		"status": {Method: status, Needs: operations.NeedsRecords}, "reset": {Method: say, Needs: operations.ReplacesMachine},
	}
}

// caller is a client of HostService over gRPC.
type caller struct {
	hostv1connect.HostServiceClient
	t *testing.T
}

func newCaller(t *testing.T, a *Agent) caller {
	t.Helper()
	a.options.Operations = callable()
	return caller{hostClient(t, serve(t, a, ServeOptions{})), t}
}

// call returns the result of a call, and all messages before it.
func (c caller) call(id, method, params string) (result, stdout, stderr, events string, err error) {
	c.t.Helper()
	return c.send(&hostpb.CallRequest{SandboxId: id, Method: method, Params: []byte(params)})
}

func (c caller) send(req *hostpb.CallRequest) (result, stdout, stderr, events string, err error) {
	c.t.Helper()
	s, err := c.Call(c.t.Context(), connect.NewRequest(req))
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close()
	for s.Receive() {
		m := s.Msg()
		result, stdout, stderr, events = result+string(m.GetResult()), stdout+string(m.GetStdout()), stderr+string(m.GetStderr()), events+m.GetProgress()
	}
	return result, stdout, stderr, events, s.Err()
}

func TestCall(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", DefaultEnv: map[string]string{"A": "1", "B": "2"}})
	c := newCaller(t, a)
	result, stdout, stderr, events, err := c.call("x", "say", `{"text": "\"workspace_id\":\"ws-x\"", "env": {"B": "3"}}`)
	var got echo
	if err != nil || json.Unmarshal([]byte(result), &got) != nil {
		t.Fatalf("%q, %v", result, err)
	}
	if got.WorkspaceID != "x" || got.Text != `"workspace_id":"ws-x"` || fmt.Sprint(got.Env) != "map[A:1 B:3]" || got.User != "" {
		t.Errorf("got %+v", got)
	}
	if len(stdout) != maxChunk+1 || stderr != "e" || !strings.Contains(events, `"phase":"saying"`) {
		t.Errorf("got %d bytes, %q, %q", len(stdout), stderr, events)
	}
	result, _, _, _, err = c.call("x", "status", `{"text": "ws-x"}`)
	if err != nil || strings.Contains(result, "ws-x") || strings.Contains(result, "pyro-host") || !strings.Contains(result, `"forked_from":"x"`) || !strings.Contains(result, `"own":"z"`) {
		t.Errorf("got %s, %v", result, err)
	}
	result, _, _, _, err = c.call("x", "activity", `{}`)
	if err != nil || strings.Contains(result, "pyro-host") || !strings.Contains(result, `"own":"z"`) {
		t.Errorf("got %s, %v", result, err)
	}
}

// TestCallUser checks that programs of a call run as the default user of the sandbox, unless the
// call names another one.
func TestCallUser(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", DefaultUser: "daemon"})
	c := newCaller(t, a)
	for params, want := range map[string]string{`{}`: "daemon", `{"user": ""}`: "daemon", `{"user": "root"}`: "root"} {
		result, _, _, _, err := c.call("x", "say", params)
		var got echo
		if err != nil || json.Unmarshal([]byte(result), &got) != nil || got.User != want {
			t.Errorf("%s: got %q, %v, want the user %s", params, result, err, want)
		}
	}
	if _, _, _, _, err := c.call("x", "say", `{"user": 1}`); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a wrong user: %v", err)
	}
}

// TestCallErrors checks that a call can't name another workspace, and that errors name the sandbox.
func TestCallErrors(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := newCaller(t, a)
	for name, e := range map[string]struct {
		id, method, params string
		want               connect.Code
	}{
		"another workspace": {"x", "say", `{"workspace_id": "ws-y"}`, connect.CodeInvalidArgument},
		"in another case":   {"x", "say", `{"Workspace_ID": "ws-y"}`, connect.CodeInvalidArgument},
		"in other letters":  {"x", "say", `{"work` + "\u017f" + `pace_id": "ws-y"}`, connect.CodeInvalidArgument},
		"an option":         {"x", "say", `{"stream": true}`, connect.CodeInvalidArgument},
		"an unknown one":    {"x", "say", `{"more": 1}`, connect.CodeInvalidArgument},
		"a wrong env":       {"x", "say", `{"env": 1}`, connect.CodeInvalidArgument},
		"no object":         {"x", "say", `[]`, connect.CodeInvalidArgument},
		"null":              {"x", "say", `null`, connect.CodeInvalidArgument},
		"no sandbox":        {"y", "say", `{}`, connect.CodeNotFound},
		"no operation":      {"x", "delete_workspace", `{}`, connect.CodeUnimplemented},
		"too much":          {"x", "say", `{"text": "` + strings.Repeat("a", maxParams) + `"}`, connect.CodeResourceExhausted},
		"its own error":     {"x", "fail", `{}`, connect.CodeAlreadyExists},
	} {
		_, _, _, _, err := c.call(e.id, e.method, e.params)
		if connect.CodeOf(err) != e.want || strings.Contains(fmt.Sprint(err), "ws-") {
			t.Errorf("%s: got %v, want %s", name, err, e.want)
		}
	}
	_, _, _, _, err := c.call("x", "fail", "")
	e := err.(*connect.Error)
	v, err := e.Details()[0].Value()
	if detail, _ := v.(*pb.ErrorDetail); err != nil || detail.Hint != `call service_stop with service_name "x"` || detail.Subject != "x" || !strings.Contains(e.Message(), "it is in x") {
		t.Errorf("got %q, %v", e.Message(), v)
	}
}

// TestCallRequirements checks the effect of calls on paused and on stopped sandboxes.
func TestCallRequirements(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	c := newCaller(t, a)
	for _, e := range []struct {
		method, before, after string
		onlyRunning           bool
		want                  connect.Code
	}{
		{"say", statusPaused, statusRunning, false, 0}, {"status", statusPaused, statusPaused, false, 0}, {"reset", statusPaused, statusRunning, false, 0},
		{"say", statusStopped, statusStopped, false, connect.CodeFailedPrecondition}, {"status", statusStopped, statusStopped, false, 0},
		{"reset", statusStopped, statusStopped, false, 0}, {"say", statusPaused, statusPaused, true, connect.CodeFailedPrecondition},
		{"reset", statusPaused, statusPaused, true, connect.CodeFailedPrecondition}, {"status", statusPaused, statusPaused, true, 0},
		{"say", statusRunning, statusRunning, true, 0}, {"say", statusStopped, statusStopped, true, connect.CodeFailedPrecondition},
	} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
		switch e.before {
		case statusPaused:
			if err := pause(t, a, "x"); err != nil {
				t.Fatal(err)
			}
		case statusStopped:
			f.stop("ws-x")
		}
		if e.method == "reset" && e.after == statusRunning { // what the operation would do
			if err := f.setPaused("ws-x", false); err != nil {
				t.Fatal(err)
			}
		}
		_, _, _, _, err := c.send(&hostpb.CallRequest{SandboxId: "x", Method: e.method, OnlyRunning: e.onlyRunning})
		if err == nil && e.want != 0 || err != nil && connect.CodeOf(err) != e.want {
			t.Errorf("%s of a sandbox that is %s: %v", e.method, e.before, err)
		}
		if got := list(t, a)[0].Status; got != e.after {
			t.Errorf("%s of a sandbox that is %s: it is %s, want %s", e.method, e.before, got, e.after)
		}
		if err := a.destroy(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		clear(f.stopped)
		clear(f.paused)
		f.mu.Unlock()
	}
}

// TestCallIsActivity checks that a sandbox is not paused during a call, and that the call ends when
// its client disconnects.
func TestCallIsActivity(t *testing.T) {
	h := &manualClock{now: time.Unix(1000, 0)}
	a := openAt(t, t.TempDir(), newFakes(), h)
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", TimeoutSec: 60})
	c := newCaller(t, a)
	s, err := a.find("x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var calling sync.WaitGroup
	calling.Go(func() {
		if s, err := c.Call(ctx, connect.NewRequest(&hostpb.CallRequest{SandboxId: "x", Method: "wait"})); err == nil {
			s.Receive()
		}
	})
	busy := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			got := s.busy > 0
			s.mu.Unlock()
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the call runs: %v, want %v", got, want)
			}
		}
	}
	busy(true)
	h.pass(time.Hour)
	if s.pauseDue() {
		t.Error("a pause is due during a call")
	}
	leave()
	calling.Wait()
	busy(false)
	if s.pauseDue() {
		t.Error("a pause is due right after a call")
	}
}

func TestForkSandbox(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{MemoryMB: 1024})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", Vcpus: 2, MemoryMb: 400, TimeoutSec: 60, DefaultEnv: map[string]string{"A": "1"}})
	c := newCaller(t, a)
	fork := func(from, to string) error {
		_, err := c.ForkSandbox(t.Context(), connect.NewRequest(&hostpb.ForkSandboxRequest{SandboxId: from, NewSandboxId: to, Live: true}))
		return err
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := fork("x", "y"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := fork("gone", "y"); err != nil {
		t.Errorf("repeat a fork: %v", err)
	}
	if len(f.forked) != 1 || f.forked[0] != (Fork{Live: true}) || f.ids() != 2 {
		t.Errorf("%v made %d machines", f.forked, f.ids())
	}
	for from, want := range map[string]connect.Code{"gone": connect.CodeNotFound, "x": connect.CodeResourceExhausted} {
		if err := fork(from, "z"); connect.CodeOf(err) != want {
			t.Errorf("from %s: got %v, want %s", from, err, want)
		}
	}
	a.Close()
	a = open(t, folder, f, Limits{})
	s, err := a.find("y")
	if err != nil {
		t.Fatal(err)
	}
	if r := s.record(); r.WorkspaceID != "ws-y" || r.VCPUs != 2 || r.MemoryMB != 400 || r.TimeoutSec != 60 || r.DefaultEnv["A"] != "1" || r.CreationID == "" {
		t.Errorf("%+v", r)
	}
}

// TestInterruptedFork checks that the next host agent removes a fork whose creation was
// interrupted.
func TestInterruptedFork(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	c := newCaller(t, a)
	var free func()
	f.during = func(Spec) { free = blockRecord(t, folder, "y") } // the record stays as a killed host agent leaves it
	f.deleteErr = fault.Newf(fault.Unavailable, "killed")
	if _, err := c.ForkSandbox(t.Context(), connect.NewRequest(&hostpb.ForkSandboxRequest{SandboxId: "x", NewSandboxId: "y"})); err == nil || f.ids() != 2 {
		t.Errorf("%v, %d machines", err, f.ids())
	}
	free()
	f.deleteErr = nil
	a.Close()
	a = open(t, folder, f, Limits{})
	if all := list(t, a); len(all) != 1 || f.ids() != 1 {
		t.Errorf("%v, %d machines", all, f.ids())
	}
}
