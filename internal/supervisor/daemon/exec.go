package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/machine"
)

func pid() int { return os.Getpid() }

// endPatience is how long the end of a machine may take to show after its link has broken.
const endPatience = 2 * time.Second

// Exec runs a command and keeps it in the history: that it began while it runs, so that one whose machine dies is there too, and how it ended before its caller
// is told.
func (s *server) Exec(ctx context.Context, stream *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.Start
	if start == nil || len(start.Argv) == 0 {
		return &fault.Error{Kind: fault.Invalid, Err: errNoStart}
	}
	done, err := s.beginLong(ctx)
	if err != nil {
		return err
	}
	defer done()
	c, err := s.daemon.command(start)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := s.daemon.record(ctx, start)
	var input io.Reader
	if start.Stdin {
		r, w := io.Pipe()
		defer r.Close()
		go receive(stream, first, w, cancel)
		input = r
	}
	to := &sender{stream: stream}
	r := &running{
		id: start.ExecId, history: h,
		out:  s.daemon.outletFor(to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stdout = b }), &h.stdout),
		errs: s.daemon.outletFor(to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stderr = b }), &h.stderr),
	}
	c.Started = func(pid int) { to.send(&supervisorv1.ExecResponse{Pid: uint32(pid)}) } // a caller that is gone is told of by what comes next
	exit, err := s.daemon.run(ctx, r, c, input)
	if s.daemon.hasLeft(err) {
		return errLeft
	}
	sequence, unrecorded := h.end(exit, err)
	if err != nil {
		return errors.Join(err, unrecorded)
	}
	last := &supervisorv1.ExecResponse{Sequence: int64(sequence), Exit: s.daemon.exitOf(exit)}
	if unrecorded != nil { // the command has run all the same
		last.HistoryError = fault.Printable(s.daemon.secrets.Text(unrecorded.Error()))
	}
	return to.send(last)
}

// running is a command that runs.
type running struct {
	id        string
	history   *history
	out, errs *outlet
}

// run runs a command to its end, or to that of its machine.
func (d *daemon) run(ctx context.Context, r *running, c client.Command, input io.Reader) (client.Exit, error) {
	d.commands.Store(r.id, r)
	exit, err := d.machine.Agent.Exec(ctx, c, input, r.out, r.errs)
	err = errors.Join(err, r.out.Close(), r.errs.Close())
	d.commands.Delete(r.id)
	if err != nil && !d.hasLeft(err) {
		return d.broken(ctx, err)
	}
	return exit, err
}

func (d *daemon) exitOf(e client.Exit) *supervisorv1.ExecExit {
	return &supervisorv1.ExecExit{
		Code: int32(e.Code), Signal: int32(e.Signal), TimedOut: e.TimedOut, NotRun: d.secrets.Text(e.Message), OutOfMemory: e.OutOfMemory,
		OutputHeld: e.OutputHeld, DurationNs: int64(e.Duration),
	}
}

// command is what the agent is asked to run, with the secrets that it is to have.
func (d *daemon) command(s *supervisorv1.ExecStart) (client.Command, error) {
	secrets, err := d.secrets.env(s.SecretEnv)
	if err != nil {
		return client.Command{}, err
	}
	c := client.Command{
		ID: s.ExecId, Argv: s.Argv, Env: append(s.Env[:len(s.Env):len(s.Env)], secrets...), Cwd: s.Cwd, User: s.User, Timeout: time.Duration(s.TimeoutMs) * time.Millisecond,
	}
	if s.Tty != nil {
		c.TTY = &client.Terminal{Cols: int(s.Tty.Cols), Rows: int(s.Tty.Rows), Term: s.Term}
	}
	return c, nil
}

// receive passes on the input of a command. A caller that goes ends the command.
func receive(stream *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse], m *supervisorv1.ExecRequest, to *io.PipeWriter, gone context.CancelCauseFunc) {
	for {
		if len(m.Input) > 0 {
			if _, err := to.Write(m.Input); err != nil {
				return
			}
		}
		if m.InputEnd {
			to.Close()
			return
		}
		var err error
		if m, err = stream.Receive(); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("its caller went")
			}
			gone(err)
			to.CloseWithError(err)
			return
		}
	}
}

// sender sends what comes from both streams of a command.
type sender struct {
	stream *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse]
	mu     sync.Mutex
}

func (s *sender) send(m *supervisorv1.ExecResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

type senderOf struct {
	*sender
	set func(*supervisorv1.ExecResponse, []byte)
}

func (s *sender) of(set func(*supervisorv1.ExecResponse, []byte)) io.Writer { return senderOf{s, set} }

func (s senderOf) Write(b []byte) (int, error) {
	var m supervisorv1.ExecResponse
	s.set(&m, b)
	return len(b), s.send(&m)
}

// broken tells why a command did not come to its end: what ended its machine tells more than that the link broke. That memory was short is a result.
func (d *daemon) broken(ctx context.Context, err error) (client.Exit, error) {
	if ctx.Err() != nil {
		return client.Exit{}, context.Cause(ctx)
	}
	select {
	case <-d.machine.Done():
	case <-time.After(endPatience):
		return client.Exit{}, err
	}
	ended := d.machine.Err()
	if errors.Is(ended, machine.ErrOutOfMemory) {
		return client.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), OutOfMemory: true}, nil
	}
	if ended == nil {
		return client.Exit{}, fault.Newf(fault.Unavailable, "the workspace was stopped while the command ran")
	}
	return client.Exit{}, fault.Newf(fault.Unavailable, "its machine ended while the command ran: %w", ended).
		WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", d.order.Workspace.ID))
}

// runs fails for a command that does not run, or no more: an agent knows commands for a while after their end.
func (s *server) runs(id string) error {
	if _, ok := s.daemon.commands.Load(id); !ok {
		return fault.New(fault.NotFound, "find command", fault.Printable(id), "it does not run")
	}
	return nil
}

// Signal signals a command.
func (s *server) Signal(ctx context.Context, req *connect.Request[supervisorv1.SignalRequest]) (*connect.Response[supervisorv1.SignalResponse], error) {
	if req.Msg.Signal < 1 || req.Msg.Signal > 64 {
		return nil, fault.New(fault.Invalid, "signal command", req.Msg.ExecId, "no such signal: %d", req.Msg.Signal)
	}
	if err := s.runs(req.Msg.ExecId); err != nil {
		return nil, err
	}
	if err := s.daemon.machine.Agent.Signal(ctx, req.Msg.ExecId, syscall.Signal(req.Msg.Signal)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.SignalResponse{}), nil
}

// Resize resizes the terminal of a command.
func (s *server) Resize(ctx context.Context, req *connect.Request[supervisorv1.ResizeRequest]) (*connect.Response[supervisorv1.ResizeResponse], error) {
	size := req.Msg.Size
	if size == nil {
		return nil, fault.New(fault.Invalid, "resize terminal", req.Msg.ExecId, "there is no size")
	}
	if err := s.runs(req.Msg.ExecId); err != nil {
		return nil, err
	}
	if err := s.daemon.machine.Agent.Resize(ctx, req.Msg.ExecId, int(size.Cols), int(size.Rows)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.ResizeResponse{}), nil
}
