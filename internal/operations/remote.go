package operations

import (
	"context"
	"encoding/json"
	"io"
	"reflect"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// Machine is the state of a workspace's machine that an operation needs. Other hosts can't call
// operations with the zero value, see [RemoteOperations].
type Machine int

// Values of Machine. An operation with the value local uses files of the host, changes other
// workspaces, or must be called by the operator of the host.
const (
	local           Machine = iota
	NeedsRecords            // only records and disks: the machine can be in any state
	NeedsMachine            // a running machine: a paused machine is resumed
	ReplacesMachine         // it ends the machine and starts another one
)

// remote returns the operation as one that other hosts can call. It must have the parameter
// workspace_id, and must not use files of the host.
func (o Operation) remote(needs Machine) Operation {
	o.needs = needs
	return o
}

// RemoteOperation is an operation that can be called from another host. It takes a workspace and
// uses no file of the host.
type RemoteOperation struct {
	rpc.Method
	Needs Machine
}

// RemoteOperations returns the operations that can be called from another host, by the names of
// their methods.
func RemoteOperations(p *pyro.Pyro) map[string]RemoteOperation {
	all := map[string]RemoteOperation{}
	for _, o := range table("") {
		if o.needs != local {
			all[o.Method] = RemoteOperation{o.do.method(o, p), o.needs}
		}
	}
	return all
}

// Remote calls operations on workspaces of other hosts.
type Remote interface {
	// Call calls a method on a workspace. The params are a JSON object without workspace_id. If
	// changes is true, the call can change the workspace.
	Call(ctx context.Context, workspace, method string, changes bool, params json.RawMessage, to rpc.Listener) (json.RawMessage, error)
}

// CallRemote calls a method with a request of package pyro on a workspace of another host.
func CallRemote[Req, Res any](ctx context.Context, to Remote, workspace, method string, changes bool, req Req) (result Res, err error) {
	text, err := json.Marshal(req)
	if err != nil {
		return result, err
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(text, &params); err != nil {
		return result, err
	}
	delete(params, workspaceID)
	if text, err = json.Marshal(params); err != nil {
		return result, err
	}
	if text, err = to.Call(ctx, workspace, method, changes, text, listenerOf(req)); err != nil {
		return result, err
	}
	err = json.Unmarshal(text, &result)
	return result, fault.Wrap(err, method, workspace)
}

const workspaceID = "workspace_id"

// remote returns the function that calls a method on a workspace of another host. The function does
// not use its argument of type *pyro.Pyro. The request must have the field WorkspaceID.
func remote[Req, Res any](to Remote, method string, changes bool) Function[Req, Res] {
	return func(_ *pyro.Pyro, ctx context.Context, req Req) (Res, error) {
		return CallRemote[Req, Res](ctx, to, reflect.ValueOf(req).FieldByName("WorkspaceID").String(), method, changes, req)
	}
}

// listenerOf returns a listener for the fields Progress, Stdout and Stderr of a request.
func listenerOf(req any) (to rpc.Listener) {
	fields := reflect.ValueOf(req)
	field := func(name string) any {
		if f := fields.FieldByName(name); f.IsValid() && !f.IsNil() {
			return f.Interface()
		}
		return nil
	}
	to.Stdout, _ = field("Stdout").(io.Writer)
	to.Stderr, _ = field("Stderr").(io.Writer)
	if report, _ := field("Progress").(pyro.ProgressFunc); report != nil {
		to.Progress = func(e progress.Event) { report(pyro.Progress(e)) }
	}
	return to
}

func (b bound[Req, Res]) remoteTool(t Tool, method string, to Remote) mcp.Tool {
	return bound[Req, Res]{remote[Req, Res](to, method, t.Kind != mcp.Reads)}.tool(t, nil)
}

func (a adapted[ToolReq, ToolRes, Req, Res]) remoteTool(t Tool, method string, to Remote) mcp.Tool {
	return bound[ToolReq, ToolRes]{a.adapt(remote[Req, Res](to, method, t.Kind != mcp.Reads))}.tool(t, nil)
}
