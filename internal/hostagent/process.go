package hostagent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// StartBackground starts a program in the background. The program continues after the call.
func (a *Agent) StartBackground(ctx context.Context, req *connect.Request[pb.StartBackgroundRequest]) (*connect.Response[pb.StartBackgroundResponse], error) {
	m, s, end, err := a.connected(ctx, "start in the background", req.Msg.SandboxId)
	if err != nil {
		return nil, err
	}
	defer end()
	var shell workspace.Shell
	c, err := s.command(req.Msg)
	if err == nil {
		shell, err = openTagged(ctx, m, req.Msg.Tag, "proc-", c)
	}
	if err != nil {
		return nil, fault.Wrap(err, "start in the background", req.Msg.SandboxId)
	}
	return connect.NewResponse(&pb.StartBackgroundResponse{Pid: uint32(shell.PID), Tag: shell.Tag}), nil
}

// ListProcesses lists the running background programs.
func (a *Agent) ListProcesses(ctx context.Context, req *connect.Request[pb.ListProcessesRequest]) (*connect.Response[pb.ListProcessesResponse], error) {
	m, _, end, err := a.connected(ctx, "list processes", req.Msg.SandboxId)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := inBackground(ctx, m)
	if err != nil {
		return nil, fault.Wrap(err, "list processes", req.Msg.SandboxId)
	}
	r := &pb.ListProcessesResponse{}
	for _, one := range all {
		r.Processes = append(r.Processes, &pb.ProcessInfo{Pid: uint32(one.PID), Tag: one.Tag, Cmd: one.Argv[0], Args: one.Argv[1:]})
	}
	return connect.NewResponse(r), nil
}

// inBackground returns the running background programs, oldest first.
func inBackground(ctx context.Context, m Machine) ([]workspace.Shell, error) {
	all, err := m.Tagged(ctx, "")
	return slices.DeleteFunc(all, func(s workspace.Shell) bool {
		return !s.InBackground() || s.Tag == "" || s.PID == 0 || !s.EndedAt.IsZero() || len(s.Argv) == 0
	}), err
}

// selector selects a background program by PID or tag.
type selector interface {
	GetPid() uint32
	GetTag() string
}

// selectProgram returns the program that a request selects. A tag can also select a program that
// has ended.
func selectProgram(ctx context.Context, m Machine, by selector) (workspace.Shell, error) {
	if tag := by.GetTag(); tag != "" {
		return findTagged(ctx, m, tag, true)
	}
	if by.GetPid() == 0 {
		return workspace.Shell{}, fault.Newf(fault.Invalid, "pid and tag are missing").WithHint("call ListProcesses")
	}
	all, err := inBackground(ctx, m)
	for _, one := range all {
		if uint32(one.PID) == by.GetPid() {
			return one, nil
		}
	}
	if err == nil {
		err = fault.Newf(fault.NotFound, "no background program has the PID %d", by.GetPid()).WithHint("call ListProcesses")
	}
	return workspace.Shell{}, err
}

// signals are the signals that KillProcess accepts. The default is SIGKILL.
var signals = []string{"SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"}

// KillProcess sends a signal to a background program. SIGKILL also kills the program's descendants.
func (a *Agent) KillProcess(ctx context.Context, req *connect.Request[pb.KillProcessRequest]) (*connect.Response[pb.KillProcessResponse], error) {
	m, _, end, err := a.connected(ctx, "kill process", req.Msg.SandboxId)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := kill(ctx, m, req.Msg); err != nil {
		return nil, fault.Wrap(err, "kill process", req.Msg.SandboxId)
	}
	return connect.NewResponse(&pb.KillProcessResponse{}), nil
}

func kill(ctx context.Context, m Machine, q *pb.KillProcessRequest) error {
	name := cmp.Or(q.Signal, "SIGKILL")
	if !slices.Contains(signals, name) {
		return fault.Newf(fault.Invalid, "signal is %q: it must be one of %s", fault.Printable(q.Signal[:min(len(q.Signal), 80)]), strings.Join(signals, " "))
	}
	one, err := selectProgram(ctx, m, q)
	if err != nil {
		return err
	}
	if sig := program.Signals[strings.TrimPrefix(name, "SIG")]; sig == syscall.SIGKILL {
		_, err = m.KillShell(ctx, one.ID)
	} else {
		_, err = m.SignalShell(ctx, one.ID, sig)
	}
	return err
}

// ConnectProcess streams the output of a background program until the program ends. The stream
// starts at the offsets in the request.
func (a *Agent) ConnectProcess(ctx context.Context, req *connect.Request[pb.ConnectProcessRequest], to *connect.ServerStream[pb.ConnectProcessResponse]) error {
	q := req.Msg
	m, _, end, err := a.connected(ctx, "connect to process", q.SandboxId)
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := a.streamContext(ctx)
	defer stop(nil)
	one, err := selectProgram(ctx, m, q)
	if err == nil && min(q.StdoutOffset, q.StderrOffset) < 0 {
		err = fault.Newf(fault.Invalid, "stdout_offset and stderr_offset must be at least 0")
	}
	if err != nil {
		return fault.Wrap(err, "connect to process", q.SandboxId)
	}
	w := &connection{to: to}
	if err := w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_Start{Start: &pb.ExecStreamStart{Pid: uint32(one.PID)}}}); err != nil {
		return err
	}
	var both sync.WaitGroup
	var last workspace.Shell
	watch := func(shell *workspace.Shell, read workspace.ShellRead) {
		var err error
		if *shell, err = follow(ctx, m, read, false, func(out workspace.ShellOutput) error { return w.output(out, read.Errors) }); err != nil {
			stop(err) // the first error from either goroutine is kept
		}
	}
	both.Go(func() { watch(&last, workspace.ShellRead{ID: one.ID, Cursor: q.StdoutOffset}) })
	both.Go(func() {
		watch(new(workspace.Shell), workspace.ShellRead{ID: one.ID, Cursor: q.StderrOffset, Errors: true})
	})
	both.Wait()
	var e pb.ExecStreamEnd
	if err = context.Cause(ctx); err == nil {
		e.ExitCode, e.Error, err = exitResult(last)
	}
	if err != nil {
		return fault.Wrap(err, "watch process", one.Tag)
	}
	return w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_End{End: &e}})
}

// connection sends both output streams of a program to one client.
type connection struct {
	mu sync.Mutex
	to *connect.ServerStream[pb.ConnectProcessResponse]
}

func (w *connection) send(r *pb.ConnectProcessResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Send(r)
}

func (w *connection) output(out workspace.ShellOutput, errors bool) error {
	data := &pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: out.Data}, Offset: out.From}
	if errors {
		data.Output = &pb.ExecStreamData_Stderr{Stderr: out.Data}
	}
	return w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_Data{Data: data}})
}
