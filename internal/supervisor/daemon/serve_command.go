package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// recorded waits until the history contains a detached command. It returns an error if the history
// can't be written. It does nothing for other shells.
func (s *shell) recorded() error {
	if s.history == nil {
		return nil
	}
	<-s.history.begun
	return fault.Wrap(s.history.failed, "keep the command's history", "")
}

// recordEnd records the end of a detached command in the history, unless the command continues
// under another supervisor.
func (s *shell) recordEnd() {
	if s.history == nil {
		return
	}
	if !errors.Is(s.err, errSuspended) {
		if _, err := s.history.end(s.exit, s.err); err != nil {
			slog.Error("record the end of a command", "workspace", s.daemon.config.Workspace.ID, "error", err)
		}
	}
	s.unused()
}

// interruptDetached ends the detached commands before the machine is stopped. So the history says
// that they were interrupted, and not that a signal ended them.
func (d *daemon) interruptDetached() {
	detached := slices.DeleteFunc(d.shells.list(), func(s *shell) bool { return s.history == nil })
	for _, s := range detached { // all at once, because each can take a while if the agent does not answer
		s.cancel(errStoppedMeanwhile)
	}
	for _, s := range detached {
		<-s.done
	}
}

// numbered returns the job with a number in the history. If the job is a detached command, it also
// returns the shell.
func (d *daemon) numbered(sequence int64) (*job, *shell, error) {
	if s, ok := d.shells.find(func(s *shell) bool { return s.history != nil && int64(s.history.sequence()) == sequence }); ok && sequence > 0 {
		return &s.job, s, nil
	}
	if c, ok := d.commands.find(func(c *command) bool { return int64(c.history.sequence()) == sequence }); ok && sequence > 0 {
		return &c.job, nil, nil
	}
	return nil, nil, fault.New(fault.NotFound, "find command", "", "command %d does not run", sequence)
}

// ReadCommand returns the output and the end of a command.
func (s *server) ReadCommand(ctx context.Context, req *connect.Request[supervisorv1.ReadCommandRequest]) (*connect.Response[supervisorv1.ReadCommandResponse], error) {
	m := req.Msg
	if m.StdoutCursor < 0 || m.StderrCursor < 0 || m.MaxChars < 1 || m.MaxChars > maxChars || m.WaitMs < 0 {
		return nil, fault.New(fault.Invalid, "read command", "", "a cursor, a number of characters or a time is out of its range")
	}
	done, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	j, detached, err := s.daemon.numbered(m.Sequence)
	if err != nil {
		return nil, err
	}
	if err := j.awaitOutput(ctx, detached, m); err != nil {
		return nil, err
	}
	r := &supervisorv1.ReadCommandResponse{}
	if j.hasEnded() { // read before the output: if the command has ended, the output is complete
		if errors.Is(j.err, errSuspended) {
			return nil, errSuspended
		}
		r.EndedUnixNanos = j.ended.UnixNano()
		if j.err != nil {
			r.Broken = s.daemon.secrets.Text(j.err.Error())
		} else {
			exit := j.exitRedacted()
			r.Exit = exit.Encode()
		}
	}
	if detached != nil {
		read := (*program.Log).Read
		if m.Raw {
			read = (*program.Log).ReadRaw
		}
		r.Stdout = pieceOf(read(detached.log, m.StdoutCursor, int(m.MaxChars)))
		r.Stderr = pieceOf(read(detached.errs, m.StderrCursor, int(m.MaxChars)))
	}
	return connect.NewResponse(r), nil
}

func pieceOf(p program.Piece) *supervisorv1.OutputPiece {
	return &supervisorv1.OutputPiece{Data: p.Data, From: p.From, Next: p.Next, Dropped: p.Dropped, More: p.More}
}

// awaitOutput waits as the request demands. If the time limit is reached, it returns no error. The
// output of a command that is not detached goes only to its caller.
func (j *job) awaitOutput(ctx context.Context, detached *shell, m *supervisorv1.ReadCommandRequest) error {
	limit := time.NewTimer(min(maxWait, time.Duration(m.WaitMs)*time.Millisecond))
	defer limit.Stop()
	for {
		var out, errs <-chan struct{}
		if detached != nil && !m.UntilEnd {
			out, errs = detached.log.Changed(), detached.errs.Changed()
			if detached.log.Len() > m.StdoutCursor || detached.errs.Len() > m.StderrCursor {
				return nil
			}
		}
		select {
		case <-out:
		case <-errs:
		case <-j.done:
			return nil
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Signal sends a signal to a command, or kills the command with its descendants.
func (s *server) Signal(ctx context.Context, req *connect.Request[supervisorv1.SignalRequest]) (*connect.Response[supervisorv1.SignalResponse], error) {
	m := req.Msg
	switch {
	case m.Signal < 1 || m.Signal > 64:
		return nil, fault.New(fault.Invalid, "signal command", m.ExecId, "no such signal: %d", m.Signal)
	case m.Tree && syscall.Signal(m.Signal) != syscall.SIGKILL:
		return nil, fault.New(fault.Invalid, "signal command", m.ExecId, "its process tree can only be killed")
	}
	j, err := s.signalled(m)
	if err != nil {
		return nil, err
	}
	if m.Tree {
		err = j.kill(ctx)
	} else {
		err = j.signal(ctx, syscall.Signal(m.Signal))
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.SignalResponse{}), nil
}

// signalled returns the command that a request selects by its ID or by its number.
func (s *server) signalled(m *supervisorv1.SignalRequest) (*job, error) {
	if m.Sequence != 0 {
		j, _, err := s.daemon.numbered(m.Sequence)
		return j, err
	}
	c, err := s.running(m.ExecId)
	if err != nil {
		return nil, err
	}
	return &c.job, nil
}
