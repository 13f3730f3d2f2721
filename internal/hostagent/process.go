package hostagent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// StartBackground starts a program that goes on by itself.
func (a *Agent) StartBackground(ctx context.Context, req *connect.Request[pb.StartBackgroundRequest]) (*connect.Response[pb.StartBackgroundResponse], error) {
	m, s, end, err := a.connected(ctx, "start in the background", req.Msg.SandboxId)
	if err != nil {
		return nil, err
	}
	defer end()
	var shell remote.Shell
	c, err := s.command(req.Msg)
	if err == nil {
		shell, err = openTagged(ctx, m, req.Msg.Tag, "proc-", c)
	}
	if err != nil {
		return nil, fault.Wrap(err, "start in the background", req.Msg.SandboxId)
	}
	return connect.NewResponse(&pb.StartBackgroundResponse{Pid: uint32(shell.PID), Tag: shell.Tag}), nil
}

// ListProcesses gives the programs in the background that run.
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

// inBackground gives the programs in the background that run, the oldest first.
func inBackground(ctx context.Context, m Machine) ([]remote.Shell, error) {
	all, err := m.Tagged(ctx, "")
	return slices.DeleteFunc(all, func(s remote.Shell) bool {
		return !s.InBackground() || s.Tag == "" || s.PID == 0 || !s.EndedAt.IsZero() || len(s.Argv) == 0
	}), err
}

// selector names a program in the background.
type selector interface {
	GetPid() uint32
	GetTag() string
}

// selected finds it: by its number one that runs, by its tag also one that has ended.
func selected(ctx context.Context, m Machine, by selector) (remote.Shell, error) {
	if tag := by.GetTag(); tag != "" {
		return tagged(ctx, m, tag, true)
	}
	if by.GetPid() == 0 {
		return remote.Shell{}, fault.Newf(fault.Invalid, "neither pid nor tag is there").WithHint("call ListProcesses")
	}
	all, err := inBackground(ctx, m)
	for _, one := range all {
		if uint32(one.PID) == by.GetPid() {
			return one, nil
		}
	}
	if err == nil {
		err = fault.Newf(fault.NotFound, "no program in the background has the pid %d", by.GetPid()).WithHint("call ListProcesses")
	}
	return remote.Shell{}, err
}

// signals are those that can be sent.
var signals = map[string]syscall.Signal{
	"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP, "SIGQUIT": syscall.SIGQUIT,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "": syscall.SIGKILL,
}

// KillProcess kills a program in the background, or sends it another signal.
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
	sig, ok := signals[q.Signal]
	if !ok {
		return fault.Newf(fault.Invalid, "signal is %q: it must be one of %s", fault.Printable(q.Signal[:min(len(q.Signal), 80)]), strings.TrimSpace(strings.Join(slices.Sorted(maps.Keys(signals)), " ")))
	}
	one, err := selected(ctx, m, q)
	if err != nil {
		return err
	}
	if sig == syscall.SIGKILL {
		_, err = m.KillShell(ctx, one.ID)
	} else {
		_, err = m.SignalShell(ctx, one.ID, sig)
	}
	return err
}

// ConnectProcess tells what a program in the background has printed, and prints.
func (a *Agent) ConnectProcess(ctx context.Context, req *connect.Request[pb.ConnectProcessRequest], to *connect.ServerStream[pb.ConnectProcessResponse]) error {
	q := req.Msg
	m, _, end, err := a.connected(ctx, "connect to process", q.SandboxId)
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := a.watching(ctx)
	defer stop(nil)
	one, err := selected(ctx, m, q)
	if err == nil && min(q.StdoutOffset, q.StderrOffset) < 0 {
		err = fault.Newf(fault.Invalid, "an offset is below 0")
	}
	if err != nil {
		return fault.Wrap(err, "connect to process", q.SandboxId)
	}
	w := &connection{to: to}
	if err := w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_Start{Start: &pb.ExecStreamStart{Pid: uint32(one.PID)}}}); err != nil {
		return err
	}
	var both sync.WaitGroup
	var last remote.Shell
	watch := func(shell *remote.Shell, read remote.ShellRead) {
		var err error
		if *shell, err = follow(ctx, m, read, false, func(out remote.ShellOutput) error { return w.output(out, read.Errors) }); err != nil {
			stop(err) // of the two the first counts
		}
	}
	both.Go(func() { watch(&last, remote.ShellRead{ID: one.ID, Cursor: q.StdoutOffset}) })
	both.Go(func() { watch(new(remote.Shell), remote.ShellRead{ID: one.ID, Cursor: q.StderrOffset, Errors: true}) })
	both.Wait()
	var e pb.ExecStreamEnd
	if err = context.Cause(ctx); err == nil {
		e.ExitCode, e.Error, err = ended(last)
	}
	if err != nil {
		return fault.Wrap(err, "watch process", one.Tag)
	}
	return w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_End{End: &e}})
}

// connection is who is connected to a program, and is sent both of its outputs.
type connection struct {
	mu sync.Mutex
	to *connect.ServerStream[pb.ConnectProcessResponse]
}

func (w *connection) send(r *pb.ConnectProcessResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Send(r)
}

func (w *connection) output(out remote.ShellOutput, errors bool) error {
	data := &pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: out.Data}, Offset: out.From}
	if errors {
		data.Output = &pb.ExecStreamData_Stderr{Stderr: out.Data}
	}
	return w.send(&pb.ConnectProcessResponse{Event: &pb.ConnectProcessResponse_Data{Data: data}})
}
