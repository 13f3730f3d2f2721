package control

import (
	"context"
	"encoding/json"
	"io"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Call describes a call of an operation of the JSON-RPC API on a sandbox.
type Call struct {
	Method       string
	Params       json.RawMessage // a JSON object without workspace_id
	NeedsMachine bool            // the sandbox must run.
	Resumes      bool            // if the sandbox must run and is paused, it is resumed.
	Changes      bool            // it can change the sandbox, so the audit log has an entry for it

	Stdout, Stderr io.Writer // receive the output of a program. They can be nil.
	Progress       progress.Func
}

// CallSandbox calls an operation on a sandbox of the actor's team. It returns the result as JSON,
// with the ID of the sandbox as workspace_id. If it resumes a paused sandbox, it records the new
// state.
func (c *Control) CallSandbox(ctx context.Context, by Actor, id string, call Call) (result json.RawMessage, err error) {
	if call.Changes {
		defer func() { c.audit(ctx, by, call.Method, onSandbox, id, err) }()
	}
	b, err := c.store.Sandbox(ctx, by.TeamID, id)
	switch {
	case err != nil || !call.NeedsMachine || b.Wanted != store.WantPaused:
	case call.Resumes:
		b, err = c.resume(ctx, by, id)
	default:
		err = fault.New(fault.Precondition, call.Method, id, "the sandbox is paused").WithHint("resume it")
	}
	if err != nil {
		return nil, err
	}
	h, err := c.host(b)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the stream if a writer fails
	defer cancel()
	s, err := h.Client.Call(ctx, connect.NewRequest(&hostv1.CallRequest{SandboxId: id, Method: call.Method, Params: call.Params, OnlyRunning: call.NeedsMachine && !call.Resumes}))
	if err != nil {
		return nil, FromHost(err)
	}
	defer s.Close()
	for s.Receive() {
		if result = s.Msg().GetResult(); result != nil {
			return result, nil
		}
		if err := call.forward(s.Msg()); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.Err() == nil {
		return nil, fault.New(fault.Unavailable, call.Method, id, "the host agent ended the call without a result")
	}
	return nil, FromHost(s.Err())
}

// forward forwards a progress event or output to the caller.
func (call Call) forward(m *hostv1.CallResponse) (err error) {
	if b := m.GetStdout(); b != nil && call.Stdout != nil {
		_, err = call.Stdout.Write(b)
	}
	if b := m.GetStderr(); b != nil && call.Stderr != nil {
		_, err = call.Stderr.Write(b)
	}
	if text := m.GetProgress(); text != "" {
		var e struct {
			Phase, Subject string
			Done, Total    int64
		}
		if json.Unmarshal([]byte(text), &e) == nil { // a host of another version may send other fields
			call.Progress.Report(progress.Event(e))
		}
	}
	return err
}
