package daemon

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/pyro-mcp/pyro/internal/store"
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
	done, err := s.begin(ctx)
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
	s.running.Store(start.ExecId, true)
	h := s.daemon.record(ctx, start)
	var input io.Reader
	if start.Stdin {
		r, w := io.Pipe()
		defer r.Close()
		go receive(stream, first, w, cancel)
		input = r
	}
	to := &sender{stream: stream}
	out := s.daemon.secrets.Writer(io.MultiWriter(&h.stdout, to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stdout = b })))
	errs := s.daemon.secrets.Writer(io.MultiWriter(&h.stderr, to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stderr = b })))
	c.Started = func(pid int) { to.send(&supervisorv1.ExecResponse{Pid: uint32(pid)}) } // a caller that is gone is told of by what comes next
	exit, err := s.daemon.machine.Agent.Exec(ctx, c, input, out, errs)
	err = errors.Join(err, out.Close(), errs.Close())
	s.running.Delete(start.ExecId)
	if err != nil {
		exit, err = s.daemon.broken(ctx, err)
	}
	sequence, noted := h.end(exit, err)
	if err = errors.Join(err, noted); err != nil {
		return err
	}
	return to.send(&supervisorv1.ExecResponse{Sequence: int64(sequence), Exit: s.daemon.exitOf(exit)})
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
		return client.Exit{}, fault.New(fault.Unavailable, "", "", "the workspace was stopped while the command ran")
	}
	return client.Exit{}, fault.New(fault.Unavailable, "", "", "its machine ended while the command ran: %w", ended).
		WithHint("pyro workspace start %s", d.order.Workspace.ID)
}

// history is the entry of one command.
type history struct {
	daemon         *daemon
	command        store.Command
	begun          chan error
	stdout, stderr excerpt
}

// record begins an entry, without keeping the command waiting for the disk.
func (d *daemon) record(ctx context.Context, s *supervisorv1.ExecStart) *history {
	h := &history{daemon: d, begun: make(chan error, 1), command: store.Command{Argv: d.secrets.texts(s.Argv), Cwd: d.secrets.Text(s.Cwd), StartedAt: time.Now()}}
	go func() {
		var err error
		h.command.Sequence, err = d.store.Begin(context.WithoutCancel(ctx), d.order.Workspace.ID, h.command)
		h.begun <- err
	}()
	return h
}

// end completes the entry, and gives its number.
func (h *history) end(exit client.Exit, failed error) (int, error) {
	if err := <-h.begun; err != nil {
		return 0, fault.Wrap(err, "keep the command's history", "")
	}
	c := &h.command
	c.EndedAt = time.Now()
	c.Result = store.Result{
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, NotRun: h.daemon.secrets.Text(exit.Message), OutOfMemory: exit.OutOfMemory,
		DurationNS: int64(exit.Duration), StdoutBytes: h.stdout.total, StderrBytes: h.stderr.total,
	}
	if failed != nil {
		c.Result.ExitCode, c.Result.Broken = fault.ExitFailure, h.daemon.secrets.Text(failed.Error())
		c.Result.DurationNS = int64(c.EndedAt.Sub(c.StartedAt))
	}
	c.Stdout, c.Stderr = h.stdout.bytes(), h.stderr.bytes()
	_, expires := h.daemon.activity.times()
	err := h.daemon.store.End(context.Background(), h.daemon.order.Workspace.ID, *c, expires)
	return c.Sequence, fault.Wrap(err, "keep the command's history", "")
}

// runs fails for a command that does not run, or no more: an agent knows commands for a while after their end.
func (s *server) runs(id string) error {
	if _, ok := s.running.Load(id); !ok {
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

// excerpt keeps the beginning and the end of a stream.
type excerpt struct {
	head, tail []byte
	total      int64
}

const half = store.OutputBytes / 2

func (e *excerpt) Write(b []byte) (int, error) {
	n := len(b)
	e.total += int64(n)
	if room := half - len(e.head); room > 0 {
		taken := min(room, len(b))
		e.head = append(e.head, b[:taken]...)
		b = b[taken:]
	}
	if len(b) >= half {
		e.tail = append(e.tail[:0], b[len(b)-half:]...)
		return n, nil
	}
	if e.tail = append(e.tail, b...); len(e.tail) > store.OutputBytes {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-half:]...)
	}
	return n, nil
}

// bytes gives what is kept, with a line where something was left out.
func (e *excerpt) bytes() []byte {
	tail := e.tail[max(0, len(e.tail)-half):]
	left := e.total - int64(len(e.head)) - int64(len(tail))
	if left == 0 {
		return append(e.head, tail...)
	}
	return fmt.Appendf(e.head, "\n[… %d bytes are not kept …]\n%s", left, tail)
}
