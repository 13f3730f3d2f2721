package pyro

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// ServeRPC serves a program on a pair of streams, such as the standard ones, until it ends in, reads out no more, or ctx ends: with this package's operations as
// JSON-RPC 2.0, a message a line, as docs/rpc.md has it. Calls that are under way then are cancelled, and have ended when ServeRPC returns; workspaces, with their
// services and shells, go on. Both streams are closed.
func (p *Pyro) ServeRPC(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return rpc.NewServer(p.methods()).Serve(ctx, in, out)
}

// plain is an operation that tells nothing before its result.
func plain[Req, Res any](operation func(context.Context, Req) (Res, error)) func(context.Context, Req, *rpc.Call) (Res, error) {
	return func(ctx context.Context, req Req, _ *rpc.Call) (Res, error) { return operation(ctx, req) }
}

// bare is an operation whose request is empty.
func bare[Res any](operation func(context.Context) (Res, error)) func(context.Context, struct{}, *rpc.Call) (Res, error) {
	return func(ctx context.Context, _ struct{}, _ *rpc.Call) (Res, error) { return operation(ctx) }
}

// told is an operation that tells what it makes, to what listen puts into its request.
func told[Req, Res any](operation func(context.Context, Req) (Res, error), listen func(*Req, ProgressFunc)) func(context.Context, Req, *rpc.Call) (Res, error) {
	return func(ctx context.Context, req Req, c *rpc.Call) (Res, error) {
		listen(&req, reportTo(c))
		return operation(ctx, req)
	}
}

func reportTo(c *rpc.Call) ProgressFunc {
	return func(e Progress) { c.Report(progress.Event(e)) }
}

// ofWorkspace, ofVM, ofSnapshot, ofService and ofShell are operations whose request is no more than names.
func ofWorkspace[Res any](operation func(context.Context, string) (Res, error)) func(context.Context, onWorkspace, *rpc.Call) (Res, error) {
	return func(ctx context.Context, on onWorkspace, _ *rpc.Call) (Res, error) {
		return operation(ctx, on.WorkspaceID)
	}
}

func ofVM[Res any](operation func(context.Context, string) (Res, error)) func(context.Context, onVM, *rpc.Call) (Res, error) {
	return func(ctx context.Context, on onVM, _ *rpc.Call) (Res, error) { return operation(ctx, on.VMID) }
}

func ofSnapshot[Res any](operation func(ctx context.Context, id, name string) (Res, error)) func(context.Context, onSnapshot, *rpc.Call) (Res, error) {
	return func(ctx context.Context, on onSnapshot, _ *rpc.Call) (Res, error) {
		return operation(ctx, on.WorkspaceID, on.SnapshotName)
	}
}

func ofService[Res any](operation func(ctx context.Context, id, name string) (Res, error)) func(context.Context, onService, *rpc.Call) (Res, error) {
	return func(ctx context.Context, on onService, _ *rpc.Call) (Res, error) {
		return operation(ctx, on.WorkspaceID, on.ServiceName)
	}
}

func ofShell[Res any](operation func(ctx context.Context, id, shell string) (Res, error)) func(context.Context, onShell, *rpc.Call) (Res, error) {
	return func(ctx context.Context, on onShell, _ *rpc.Call) (Res, error) {
		return operation(ctx, on.WorkspaceID, on.ShellID)
	}
}

// onEnvironment is a request that is no more than a name.
type onEnvironment struct {
	Environment string `json:"environment"`
}

// workspaceList is a list as a program gets it.
type workspaceList struct {
	Workspaces []WorkspaceSummary `json:"workspaces"`
}

// forks are the workspaces that were made, and why there are not more where there should be.
type forks struct {
	*ForkedWorkspaces
	Error *fault.Report `json:"error,omitempty"`
}

// fork gives what was made although the rest could not be.
func (p *Pyro) fork(ctx context.Context, req ForkWorkspaceRequest) (*forks, error) {
	made, err := p.ForkWorkspace(ctx, req)
	if made == nil {
		return nil, err
	}
	all := &forks{ForkedWorkspaces: made}
	if err != nil {
		report := fault.ReportOf(err)
		all.Error = &report
	}
	return all, nil
}

// passed is output that is passed on as it comes, and held for the result all the same.
type passed struct {
	to io.Writer
	capture
}

func (p *passed) Write(b []byte) (int, error) {
	p.capture.Write(b) // never fails
	return p.to.Write(b)
}

// into gives a result its output, where it was passed on.
func (p *passed) into(text *string, encoding *Encoding, truncated *bool) {
	if p.to != nil {
		*text, *encoding = p.text()
		*truncated = p.truncated
	}
}

// writer is where the output goes; nil where nobody wants it as it comes.
func (p *passed) writer() io.Writer {
	if p.to == nil {
		return nil
	}
	return p
}

// runPrinting is RunInVM for a client that may want the output as it comes.
func (p *Pyro) runPrinting(ctx context.Context, req RunInVMRequest, c *rpc.Call) (*RunResult, error) {
	req.Progress = reportTo(c)
	return p.runPassing(ctx, req, c.Stdout, c.Stderr)
}

// runPassing is RunInVM that passes output on as it comes, and has it in the result too. Without writers it is plain RunInVM.
func (p *Pyro) runPassing(ctx context.Context, req RunInVMRequest, stdout, stderr io.Writer) (*RunResult, error) {
	out, errs := passed{to: stdout}, passed{to: stderr}
	req.Stdout, req.Stderr = out.writer(), errs.writer()
	r, err := p.RunInVM(ctx, req)
	if err != nil {
		return nil, err
	}
	out.into(&r.Stdout, &r.StdoutEncoding, &r.StdoutTruncated)
	errs.into(&r.Stderr, &r.StderrEncoding, &r.StderrTruncated)
	return r, nil
}

// execPrinting is ExecWorkspace for such a client.
func (p *Pyro) execPrinting(ctx context.Context, req ExecWorkspaceRequest, c *rpc.Call) (*WorkspaceExecResult, error) {
	return p.execPassing(ctx, req, c.Stdout, c.Stderr)
}

// execPassing is to ExecWorkspace what runPassing is to RunInVM.
func (p *Pyro) execPassing(ctx context.Context, req ExecWorkspaceRequest, stdout, stderr io.Writer) (*WorkspaceExecResult, error) {
	out, errs := passed{to: stdout}, passed{to: stderr}
	req.Stdout, req.Stderr = out.writer(), errs.writer()
	if req.TimeoutSeconds == 0 {
		req.TimeoutSeconds = DefaultTimeoutSeconds // it is told below
	}
	r, err := p.ExecWorkspace(ctx, req)
	if err != nil {
		return nil, err
	}
	out.into(&r.Stdout, &r.StdoutEncoding, &r.StdoutTruncated)
	errs.into(&r.Stderr, &r.StderrEncoding, &r.StderrTruncated)
	if req.Stderr != nil {
		r.tellTimeout(req.TimeoutSeconds)
	}
	return r, nil
}
