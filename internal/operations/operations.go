// Package operations is the table of pyro's operations for other programs: agents over the Model
// Context Protocol, and SDKs over JSON-RPC.
//
// Each [Operation] binds one method of package pyro to its names, arguments and texts. The tools,
// the methods and the references in docs/ are generated from this table. To add an operation, add
// it to the file of its subject: machines.go, workspaces.go, files.go, commands.go, services.go or
// shells.go.
package operations

import (
	"context"
	"io"
	"reflect"
	"slices"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// Operation is one operation of package pyro, with its names on each surface.
type Operation struct {
	Method string // its JSON-RPC method
	As     string // the command (with --json) or the function of package pyro that has the same result
	Tool   Tool

	do    call
	needs Machine // see RemoteOperations
}

// Tool is an operation as agents see it. If Name is empty, the operation has no tool.
type Tool struct {
	Name        string
	Title       string // for people
	Description string // one line for a model
	Kind        mcp.Kind
	Args        []mcp.Arg

	core        bool     // the tool is in ProfileWorkspaceCore
	withoutArgs []string // arguments that the tool lacks in ProfileWorkspaceCore
	do          call     // nil: the tool uses the call of the operation
}

// table returns all operations. The parameter project is the default seed of new workspaces, and
// can be empty.
func table(project string) []Operation {
	return slices.Concat(machines(), workspaces(project), files(), snapshots(), detached(), services(), shells())
}

// Function is a method of *pyro.Pyro as a function, such as (*pyro.Pyro).ExecWorkspace.
type Function[Req, Res any] = func(*pyro.Pyro, context.Context, Req) (Res, error)

// operation returns an operation that MCP and JSON-RPC call with the same request.
func operation[Req, Res any](method, as string, do Function[Req, Res]) Operation {
	return Operation{Method: method, As: as, do: bound[Req, Res]{do}}
}

// tool returns the operation with an MCP tool.
func (o Operation) tool(name, title, description string, kind mcp.Kind, args ...mcp.Arg) Operation {
	o.Tool = Tool{Name: name, Title: title, Description: description, Kind: kind, Args: args}
	return o
}

// core returns the operation with its tool added to ProfileWorkspaceCore. In that profile, the tool
// lacks the arguments withoutArgs.
func (o Operation) core(withoutArgs ...string) Operation {
	o.Tool.core, o.Tool.withoutArgs = true, withoutArgs
	return o
}

// toolCalls returns the operation with the function do for its tool. The request or result type of
// do differs from the types of the operation.
func toolCalls[Req, Res any](o Operation, do Function[Req, Res]) Operation {
	o.Tool.do = bound[Req, Res]{do}
	return o
}

// toolAdapts returns the operation with a function for its tool that calls the function of the
// operation. The function adapt creates it.
func toolAdapts[ToolReq, ToolRes, Req, Res any](o Operation, adapt func(Function[Req, Res]) Function[ToolReq, ToolRes]) Operation {
	do := o.do.(bound[Req, Res])
	o.Tool.do = adapted[ToolReq, ToolRes, Req, Res]{bound[ToolReq, ToolRes]{adapt(do.do)}, adapt}
	return o
}

// call creates a tool and a method from a function. It hides the request and result types of the
// function.
type call interface {
	tool(Tool, *pyro.Pyro) mcp.Tool
	remoteTool(t Tool, method string, to Remote) mcp.Tool
	method(Operation, *pyro.Pyro) rpc.Method
}

// bound implements call.
type bound[Req, Res any] struct{ do Function[Req, Res] }

func (b bound[Req, Res]) tool(t Tool, p *pyro.Pyro) mcp.Tool {
	return mcp.Bind(t.Name, t.Description, t.Kind, t.Args, func(ctx context.Context, req Req, report func(string)) (Res, error) {
		printed := mcp.Output(ctx)
		listen(&req, func(e pyro.Progress) { report(e.Subject + ": " + e.Phase) }, printed, printed)
		result, err := b.do(p, ctx, req)
		if err == nil {
			warn(ctx, result)
			shorten(result)
		}
		return result, err
	}).WithTitle(t.Title).RenderedBy(text)
}

func (b bound[Req, Res]) method(o Operation, p *pyro.Pyro) rpc.Method {
	m := rpc.Bind(o.Method, o.As, func(ctx context.Context, req Req, c *rpc.Call) (Res, error) {
		listen(&req, func(e pyro.Progress) { c.Report(progress.Event(e)) }, c.Stdout, c.Stderr)
		return b.do(p, ctx, req)
	})
	var notes rpc.Notifications
	if _, ok := m.Request.FieldByName("Progress"); ok {
		notes |= rpc.Progress
	}
	if _, ok := m.Request.FieldByName("Stdout"); ok {
		notes |= rpc.Output
	}
	return m.Notifying(notes)
}

// adapted is a call that wraps another call: its function adapt calls the function of the other
// call.
type adapted[ToolReq, ToolRes, Req, Res any] struct {
	bound[ToolReq, ToolRes]
	adapt func(Function[Req, Res]) Function[ToolReq, ToolRes]
}

// listen sets the fields Progress, Stdout and Stderr of a request, if the request has these fields.
func listen(req any, report pyro.ProgressFunc, stdout, stderr io.Writer) {
	fields := reflect.ValueOf(req).Elem()
	if f := fields.FieldByName("Progress"); f.IsValid() {
		f.Set(reflect.ValueOf(report))
	}
	for name, w := range map[string]io.Writer{"Stdout": stdout, "Stderr": stderr} {
		if f := fields.FieldByName(name); f.IsValid() && w != nil {
			f.Set(reflect.ValueOf(w))
		}
	}
}

// warn sends a warning to the client if a machine is weaker than requested, with the reason.
func warn(ctx context.Context, result any) {
	var hostCompat, emulated, unlimited string
	switch r := result.(type) {
	case *pyro.RunResult:
		hostCompat, emulated, unlimited = r.HostCompatReason, r.EmulatedReason, r.UnlimitedReason
	case *pyro.VM:
		hostCompat, emulated = r.HostCompatReason, r.EmulatedReason
	case *pyro.Workspace:
		hostCompat, emulated = r.HostCompatReason, r.EmulatedReason
	}
	for _, w := range []struct{ what, reason string }{
		{"the command runs on the host without isolation", hostCompat},
		{"the machine is emulated", emulated},
		{"the machine's processors and memory are not limited", unlimited},
	} {
		if w.reason != "" {
			mcp.Warn(ctx, w.what+": "+w.reason)
		}
	}
}
