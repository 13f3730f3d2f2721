package hostagent

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

const (
	maxParams   = 9 << 20  // maximum size of the params of Call, in bytes
	maxChunk    = 32 << 10 // maximum output in a message of Call, in bytes
	workspaceID = "workspace_id"
)

// Call calls an operation on the workspace of a sandbox. The result and the errors name the sandbox
// instead of the workspace.
func (h hostService) Call(ctx context.Context, req *connect.Request[pb.CallRequest], to *connect.ServerStream[pb.CallResponse]) error {
	m := req.Msg
	o, ok := h.agent.options.Operations[m.Method]
	switch {
	case !ok:
		return fault.New(fault.Unsupported, "call", fault.Printable(m.Method[:min(len(m.Method), 80)]), "it is not an operation for sandboxes")
	case len(m.Params) > maxParams:
		return fault.New(fault.Exhausted, "call", m.Method, "the params have %d bytes: the limit is %d", len(m.Params), maxParams)
	}
	s, err := h.agent.find(m.SandboxId)
	if err != nil {
		return fault.Wrap(err, m.Method, "")
	}
	end, err := h.agent.prepareCall(ctx, s, o.Needs, m.OnlyRunning)
	if err != nil {
		return fault.Wrap(err, m.Method, s.id())
	}
	defer end()
	r := s.record()
	params, err := paramsOf(o.Method, r, m.Params)
	if err != nil {
		return fault.Wrap(err, m.Method, s.id())
	}
	sending := &callStream{to: to}
	result, err := o.Run(ctx, params, rpc.Listener{
		Stdout: writer(func(b []byte) error {
			return sending.output(b, func(b []byte) *pb.CallResponse { return &pb.CallResponse{Event: &pb.CallResponse_Stdout{Stdout: b}} })
		}),
		Stderr: writer(func(b []byte) error {
			return sending.output(b, func(b []byte) *pb.CallResponse { return &pb.CallResponse{Event: &pb.CallResponse_Stderr{Stderr: b}} })
		}),
		Progress: sending.progress,
	})
	if err != nil {
		return sandboxError(err, r)
	}
	switch r := result.(type) {
	case *pyro.Workspace:
		h.agent.hideWorkspace(r)
	case *pyro.WorkspaceActivity:
		r.Labels = withoutOwn(r.Labels)
	}
	text, err := o.Encode(result)
	if err != nil {
		return sandboxError(err, r)
	}
	return sending.send(&pb.CallResponse{Event: &pb.CallResponse_Result{Result: renamed(text, r)}})
}

// prepareCall brings the machine of a sandbox into the state that an operation needs, and marks the
// sandbox as active until the caller calls end. With onlyRunning, and in a passive call, it fails
// with Precondition instead of resuming a paused sandbox.
func (a *Agent) prepareCall(ctx context.Context, s *sandbox, needs operations.Machine, onlyRunning bool) (end func(), err error) {
	onlyRunning = onlyRunning || passive.Is(ctx)
	switch {
	case needs == operations.ReplacesMachine:
		return a.replaceMachine(ctx, s, onlyRunning)
	case needs == operations.NeedsMachine && !onlyRunning:
		return a.useRunning(ctx, s)
	}
	if s.record().WorkspaceID == "" {
		return nil, notRunning(statusPending)
	}
	end, err = s.use(ctx)
	if err == nil && needs == operations.NeedsMachine {
		if err = a.needRunning(s); err != nil {
			end()
		}
	}
	return end, err
}

// useRunning resumes a sandbox if it is paused, and marks it as active until the caller calls end.
func (a *Agent) useRunning(ctx context.Context, s *sandbox) (end func(), err error) {
	end, err = s.use(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.ensureRunning(ctx, s); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// replaceMachine begins a transition of a sandbox for an operation that ends its machine and
// starts another one. With onlyRunning, the sandbox must run. The caller must call end.
func (a *Agent) replaceMachine(ctx context.Context, s *sandbox, onlyRunning bool) (end func(), err error) {
	done, err := s.lockExisting(ctx)
	if err != nil {
		return nil, err
	}
	status, err := a.status(s)
	switch {
	case err == nil && (status == statusPending || status == statusPaused && onlyRunning):
		err = notRunning(status)
	case err == nil && status == statusPaused: // the new machine uses memory
		err = a.readmit(s)
	}
	if err != nil {
		done()
		return nil, err
	}
	s.measureSent(ctx)
	s.watchers.changed(s.id()) // report the sent bytes now, because the new machine counts from 0
	endTransition := s.beginTransition(status)
	return func() {
		s.setPaused(false) // status checks it
		s.markResumed()
		endTransition()
		done()
	}, nil
}

// paramsOf returns the params for the workspace of a sandbox. If the operation runs a program, they
// contain the default variables of the sandbox, and its default user if they name no user.
func paramsOf(m rpc.Method, r record, params []byte) (json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &given); err != nil || given == nil {
			return nil, fault.Newf(fault.Invalid, "params must be a JSON object")
		}
	}
	if _, ok := given[workspaceID]; ok {
		return nil, fault.Newf(fault.Invalid, "params must not have %s", workspaceID)
	}
	given[workspaceID], _ = json.Marshal(r.WorkspaceID) // a string can always be marshalled
	takes := func(name string) bool {
		return slices.ContainsFunc(m.Fields(), func(f rpc.Field) bool { return f.Name == name })
	}
	if user := string(given["user"]); r.DefaultUser != "" && (user == "" || user == `""` || user == "null") && takes("user") {
		given["user"], _ = json.Marshal(r.DefaultUser) // as above
	}
	if len(r.DefaultEnv) > 0 && takes("env") {
		var own map[string]string
		if text, ok := given["env"]; ok && json.Unmarshal(text, &own) != nil {
			return nil, fault.Newf(fault.Invalid, "env must be an object of strings")
		}
		env := maps.Clone(r.DefaultEnv)
		maps.Copy(env, own)
		given["env"], _ = json.Marshal(env) // strings can always be marshalled
	}
	return json.Marshal(given)
}

// hideWorkspace removes the host agent's internal data from the description of a workspace.
func (a *Agent) hideWorkspace(w *pyro.Workspace) {
	w.Labels = withoutOwn(w.Labels)
	source := w.WorkspaceSeed.ForkedFrom
	w.WorkspaceSeed.ForkedFrom = ""
	for _, s := range a.all() {
		if source != "" && s.record().WorkspaceID == source {
			w.WorkspaceSeed.ForkedFrom = s.id()
		}
	}
}

// withoutOwn returns labels without the labels of the host agent.
func withoutOwn(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	for _, label := range []string{sandboxLabel, creationLabel, templateLabel} {
		delete(labels, label)
	}
	return labels
}

// renamed replaces the ID of a workspace in a result by the ID of its sandbox. In JSON that Go
// wrote, no string contains the searched text, because its quotes would be escaped.
func renamed(result []byte, r record) []byte {
	return bytes.ReplaceAll(result, []byte(`"`+workspaceID+`":"`+r.WorkspaceID+`"`), []byte(`"`+workspaceID+`":"`+r.SandboxID+`"`))
}

// sandboxError returns an error that names the sandbox instead of its workspace. Its hint names
// tools instead of commands, because the client can't run commands on the host.
func sandboxError(err error, r record) error {
	report := fault.ReportOf(err)
	report.Hint = fault.HintFor(err, func(a fault.Action) string {
		if a.With == "" {
			return "call " + a.Tool
		}
		return "call " + a.Tool + " with " + a.With
	})
	for _, text := range []*string{&report.Message, &report.Op, &report.Subject, &report.Hint} {
		*text = strings.ReplaceAll(*text, r.WorkspaceID, r.SandboxID)
	}
	return report.Err()
}

// callStream sends the messages of a call, one at a time.
type callStream struct {
	mu sync.Mutex
	to *connect.ServerStream[pb.CallResponse]
}

func (c *callStream) send(m *pb.CallResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.to.Send(m)
}

func (c *callStream) output(b []byte, message func([]byte) *pb.CallResponse) error {
	for len(b) > 0 {
		n := min(len(b), maxChunk)
		if err := c.send(message(b[:n])); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// progress sends an event. It ignores errors: they mean that the client has disconnected, which
// also ends the call.
func (c *callStream) progress(e progress.Event) {
	text, err := json.Marshal(pyro.Progress(e))
	if err == nil {
		_ = c.send(&pb.CallResponse{Event: &pb.CallResponse_Progress{Progress: string(text)}})
	}
}
