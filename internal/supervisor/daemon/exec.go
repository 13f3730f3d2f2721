package daemon

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// command is a job with an entry in the history. It has a caller, unless it was resumed after a
// pause.
type command struct {
	job
	history *history
}

var errNoCommand = errors.New("the first message has no command")

// Exec runs a command and records it in the history. It records the start while the command starts.
// It reports the start and the end to the caller only after they are recorded. So the history also
// contains commands that end because their machine or supervisor dies.
func (s *server) Exec(ctx context.Context, stream *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	if len(first.Start.GetArgv()) == 0 {
		return &fault.Error{Kind: fault.Invalid, Err: errNoCommand}
	}
	done, err := s.beginLong(ctx)
	if err != nil {
		return err
	}
	defer done()
	d := s.daemon
	what, err := d.command(first.Start)
	if err != nil {
		return err
	}
	h := d.newHistory(first.Start)
	go h.begin(context.WithoutCancel(ctx))
	to := &sender{stream: stream, recorded: h.begun}
	c := &command{history: h}
	c.init(d, ctx, first.Start.ExecId)
	c.stdout = d.newWriters(to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stdout = b }), &h.stdout)
	c.stderr = d.newWriters(to.of(func(r *supervisorv1.ExecResponse, b []byte) { r.Stderr = b }), &h.stderr)
	c.onStart = func(pid int) { to.send(&supervisorv1.ExecResponse{Pid: uint32(pid)}) } // if the caller has disconnected, the next send fails too
	var input io.Reader
	if first.Start.Stdin {
		r, w := io.Pipe()
		defer r.Close()
		go receiveInput(stream, first, w, c.cancel)
		input = r
	}
	refusals := d.machine.Network().WatchRefusals()
	sequence, unrecorded := d.follow(c, what, nil, input)
	count, refused := refusals.Stop()
	switch {
	case errors.Is(c.err, errSuspended):
		return errSuspended
	case c.err != nil:
		return errors.Join(c.err, unrecorded)
	}
	exit := c.exitRedacted()
	last := &supervisorv1.ExecResponse{Sequence: int64(sequence), Exit: exit.Encode(), RefusedCount: uint32(count)}
	for _, r := range refused {
		last.Refused = append(last.Refused, &supervisorv1.Refusal{Target: d.secrets.names.Text(r.Target), Reason: r.Reason})
	}
	if unrecorded != nil { // the command has run, even if the history is incomplete
		last.HistoryError = fault.Printable(d.secrets.Text(unrecorded.Error()))
		last.HistoryErrorKind = string(fault.KindOf(unrecorded))
	}
	return to.send(last)
}

// follow runs a command until it ends, or continues one from a checkpoint, and records the end. It
// returns the command's number in the history.
func (d *daemon) follow(c *command, what program.Command, from *program.Position, input io.Reader) (sequence int, unrecorded error) {
	d.commands.add(c, func(all []*command) ([]*command, error) { return all, nil })
	defer d.commands.remove(c)
	c.run(what, from, input, func() {
		if !errors.Is(c.err, errSuspended) {
			sequence, unrecorded = c.history.end(c.exit, c.err)
		}
	})
	return sequence, unrecorded
}

// command decodes a command, and adds the values of secrets to its environment.
func (d *daemon) command(m *programv1.Command) (program.Command, error) {
	c := program.Decode(m)
	secrets, err := d.secrets.env(c.Secrets)
	c.Env = append(c.Env[:len(c.Env):len(c.Env)], secrets...)
	c.Secrets = nil
	return c, err
}

// receiveInput forwards the input of a command. If the caller leaves, it stops the command.
func receiveInput(stream *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse], m *supervisorv1.ExecRequest, to *io.PipeWriter, end context.CancelCauseFunc) {
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
				err = errors.New("its caller has disconnected")
			}
			end(err)
			to.CloseWithError(err)
			return
		}
	}
}

// sender sends messages about a command. It is safe for concurrent use.
type sender struct {
	stream   *connect.BidiStream[supervisorv1.ExecRequest, supervisorv1.ExecResponse]
	recorded <-chan struct{} // closed when the start is in the history or can't be written
	mu       sync.Mutex
}

func (s *sender) send(m *supervisorv1.ExecResponse) error {
	<-s.recorded
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// outputSender is a writer that sends one output stream of a command.
type outputSender struct {
	*sender
	set func(*supervisorv1.ExecResponse, []byte)
}

func (s *sender) of(set func(*supervisorv1.ExecResponse, []byte)) io.Writer {
	return outputSender{s, set}
}

func (s outputSender) Write(b []byte) (int, error) {
	var m supervisorv1.ExecResponse
	s.set(&m, b)
	return len(b), s.send(&m)
}

// running returns the running command with an ID. The agent keeps commands for some time after
// their end, so only the supervisor knows which commands still run.
func (s *server) running(id string) (*command, error) {
	c, ok := s.daemon.commands.find(func(c *command) bool { return c.id == id })
	if !ok {
		return nil, fault.New(fault.NotFound, "find command", fault.Printable(id), "it is not running")
	}
	return c, nil
}

// Resize sets the size of a command's terminal.
func (s *server) Resize(ctx context.Context, req *connect.Request[supervisorv1.ResizeRequest]) (*connect.Response[supervisorv1.ResizeResponse], error) {
	size := req.Msg.Size
	if size == nil {
		return nil, fault.New(fault.Invalid, "resize terminal", req.Msg.ExecId, "the size is missing")
	}
	c, err := s.running(req.Msg.ExecId)
	if err != nil {
		return nil, err
	}
	if err := c.resize(ctx, int(size.Cols), int(size.Rows)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.ResizeResponse{}), nil
}
