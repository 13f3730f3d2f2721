package agent

import (
	"context"
	"errors"
	"syscall"
	"time"

	"connectrpc.com/connect"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/pty"
)

// startedPatience is how long the Started event waits for the first output or the exit. So for most
// commands, one message contains all events.
const startedPatience = 20 * time.Millisecond

// Exec starts a process and streams its events.
func (s *Server) Exec(ctx context.Context, req *connect.Request[agentv1.ExecRequest], stream *connect.ServerStream[agentv1.ExecEvent]) error {
	if len(req.Msg.Release) > maxReleases {
		return invalid("too many execs to release at once")
	}
	for _, id := range req.Msg.Release {
		if err := s.forget(ctx, id); err != nil {
			return err
		}
	}
	c := req.Msg.Command
	if c == nil {
		return invalid("command must be set")
	}
	p, err := s.start(c)
	switch {
	case errors.Is(err, errKnown):
		return connect.NewError(connect.CodeAlreadyExists, err)
	case errors.Is(err, errTooMany):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case err != nil:
		return err
	}
	patience := startedPatience
	if c.Stdin || c.Tty != nil {
		patience = 0 // the caller needs the Started event before it sends input
	}
	return follow(ctx, p, [2]uint64{}, patience, stream)
}

// Follow streams the events of a process, starting at the given output offsets.
func (s *Server) Follow(ctx context.Context, req *connect.Request[agentv1.FollowRequest], stream *connect.ServerStream[agentv1.ExecEvent]) error {
	p, err := s.known(ctx, req.Msg.ExecId)
	if err != nil {
		return err
	}
	if req.Msg.StdoutOffset > p.stdout.length() || p.stderr != nil && req.Msg.StderrOffset > p.stderr.length() {
		return connect.NewError(connect.CodeOutOfRange, errors.New("the offset is beyond the end of the output"))
	}
	return follow(ctx, p, [2]uint64{req.Msg.StdoutOffset, req.Msg.StderrOffset}, 0, stream)
}

// known returns the process of an exec, or an error with code NotFound if there is none.
func (s *Server) known(ctx context.Context, id string) (*process, error) {
	p, err := s.execs.get(ctx, id)
	if p == nil && err == nil {
		err = connect.NewError(connect.CodeNotFound, errUnknown)
	}
	return p, err
}

// follow streams the events of a process, starting at the given output offsets. The Started event
// waits for other events, but not longer than patience.
func follow(ctx context.Context, p *process, at [2]uint64, patience time.Duration, stream *connect.ServerStream[agentv1.ExecEvent]) error {
	startSent := false
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		changed := p.nextChange()
		exit := p.ended() // read before the output, because the output is complete once exit is set
		event := &agentv1.ExecEvent{}
		done := exit != nil
		for i, o := range p.outputs() {
			var end bool
			at[i], end = o.next(event, at[i])
			done = done && end
		}
		if !done && len(event.Outputs)+len(event.Gaps) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			case <-silence.C:
				if startSent {
					continue
				}
			}
		}
		if !startSent {
			event.Started = &agentv1.Started{}
			if p.command != nil {
				event.Started.Pid = uint32(p.command.NamespacePID())
			}
			startSent = true
		}
		if done {
			event.Exit = exit
		}
		if err := stream.Send(event); err != nil || done {
			return err
		}
	}
}

// Ack records how much output the caller has received.
func (s *Server) Ack(ctx context.Context, req *connect.Request[agentv1.AckRequest]) (*connect.Response[agentv1.AckResponse], error) {
	p, err := s.known(ctx, req.Msg.ExecId)
	if err != nil {
		return nil, err
	}
	p.stdout.ack(req.Msg.StdoutOffset)
	if p.stderr != nil {
		p.stderr.ack(req.Msg.StderrOffset)
	}
	return connect.NewResponse(&agentv1.AckResponse{}), nil
}

// Input writes to the standard input of a process.
func (s *Server) Input(ctx context.Context, req *connect.Request[agentv1.InputRequest]) (*connect.Response[agentv1.InputResponse], error) {
	p, err := s.known(ctx, req.Msg.ExecId)
	if err != nil {
		return nil, err
	}
	if len(req.Msg.Data) > maxChunk {
		return nil, invalid("too much input at once")
	}
	if len(req.Msg.Data) == 0 && !req.Msg.Eof {
		return connect.NewResponse(&agentv1.InputResponse{LineLimit: lineLimit(p.terminal)}), nil
	}
	accepted, closed, err := p.input.write(req.Msg.Offset, req.Msg.Data, req.Msg.Eof)
	if err != nil {
		return nil, connect.NewError(connect.CodeOutOfRange, err)
	}
	return connect.NewResponse(&agentv1.InputResponse{Accepted: accepted, Closed: closed}), nil
}

// Signal sends a signal to the process group, or kills everything that the exec has started.
func (s *Server) Signal(ctx context.Context, req *connect.Request[agentv1.SignalRequest]) (*connect.Response[agentv1.SignalResponse], error) {
	p, err := s.known(ctx, req.Msg.ExecId)
	if err != nil {
		return nil, err
	}
	if p.command == nil {
		return nil, connect.NewError(connect.CodeNotFound, errUnknown)
	}
	sig := syscall.Signal(req.Msg.Signal)
	if sig < 1 || sig > 64 || req.Msg.Scope == agentv1.Scope_SCOPE_TREE && sig != syscall.SIGKILL {
		return nil, invalid("signal must be 1 to 64, and SIGKILL for the scope tree")
	}
	if req.Msg.Scope == agentv1.Scope_SCOPE_TREE {
		err = p.group.Kill(p.command.PID())
	} else {
		err = p.signal(ctx, sig, req.Msg.Typed)
	}
	if err != nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return connect.NewResponse(&agentv1.SignalResponse{}), nil
}

// Resize sets the size of the terminal of a process.
func (s *Server) Resize(ctx context.Context, req *connect.Request[agentv1.ResizeRequest]) (*connect.Response[agentv1.ResizeResponse], error) {
	p, err := s.known(ctx, req.Msg.ExecId)
	if err != nil {
		return nil, err
	}
	if p.terminal == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the process has no terminal"))
	}
	if !validSize(req.Msg.Cols, req.Msg.Rows) {
		return nil, invalid("a terminal has 1 to 1000 columns and rows")
	}
	if err := pty.SetSize(p.terminal, int(req.Msg.Cols), int(req.Msg.Rows)); err != nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return connect.NewResponse(&agentv1.ResizeResponse{}), nil
}

// Release removes a process and its output immediately, or when the process ends. The ID can't be
// used again.
func (s *Server) Release(ctx context.Context, req *connect.Request[agentv1.ReleaseRequest]) (*connect.Response[agentv1.ReleaseResponse], error) {
	if err := s.forget(ctx, req.Msg.ExecId); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.ReleaseResponse{}), nil
}

func (s *Server) forget(ctx context.Context, id string) error {
	if len(id) < 1 || len(id) > maxID {
		return invalid(errID.Error())
	}
	s.execs.release(id)
	p, err := s.execs.get(ctx, id)
	if err != nil {
		return err
	}
	if p != nil && p.release() {
		s.execs.forget(id)
	}
	return nil
}
