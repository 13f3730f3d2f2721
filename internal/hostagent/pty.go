package hostagent

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// The size of a terminal of which nothing else is said, and its bound.
const (
	defaultCols = 80
	defaultRows = 24
	maxSide     = 1000
	maxTyped    = 1 << 20
)

// PtyAttach opens a program on a terminal, or comes back to one, and tells what is printed until it has ended.
func (a *Agent) PtyAttach(ctx context.Context, req *connect.Request[pb.PtyAttachRequest], to *connect.ServerStream[pb.PtyAttachResponse]) error {
	q := req.Msg
	m, s, end, err := a.connected(ctx, "attach to terminal", q.SandboxId)
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := a.watching(ctx)
	defer stop(nil)
	shell, err := s.terminal(ctx, m, q)
	if err != nil {
		return fault.Wrap(err, "attach to terminal", q.SandboxId)
	}
	cursor := shell.TakenBytes
	if q.Offset != nil {
		if cursor = *q.Offset; cursor < 0 || cursor > shell.OutputBytes {
			return fault.New(fault.Invalid, "attach to terminal", q.SandboxId, "offset is %d: %d bytes were printed", cursor, shell.OutputBytes)
		}
	}
	err = to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Started{Started: &pb.PtyStarted{Pid: uint32(shell.PID), Tag: shell.Tag}}})
	if err != nil {
		return err
	}
	last, err := follow(ctx, m, remote.ShellRead{ID: shell.ID, Cursor: cursor}, true, func(out remote.ShellOutput) error {
		return to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Output{Output: &pb.PtyOutput{Data: out.Data, Offset: out.From}}})
	})
	var exited pb.PtyExited
	if err == nil {
		exited.ExitCode, exited.Error, err = ended(last)
	}
	if err != nil {
		return fault.Wrap(err, "watch terminal", shell.Tag)
	}
	return to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Exited{Exited: &exited}})
}

// terminal opens a program on a terminal, or gives the one that is to be come back to, with the size that is wanted.
func (s *sandbox) terminal(ctx context.Context, m Machine, q *pb.PtyAttachRequest) (remote.Shell, error) {
	if q.Cols > maxSide || q.Rows > maxSide {
		return remote.Shell{}, errSize(q.Cols, q.Rows)
	}
	if q.Cmd != "" {
		c, err := s.command(q)
		if err != nil {
			return remote.Shell{}, err
		}
		c.TTY = &client.Terminal{Cols: int(cmp.Or(q.Cols, defaultCols)), Rows: int(cmp.Or(q.Rows, defaultRows))}
		return openTagged(ctx, m, q.Tag, "pty-", c)
	}
	if q.Tag == "" {
		return remote.Shell{}, fault.Newf(fault.Invalid, "both cmd and tag are missing").WithHint("set cmd to open a program, or tag to come back to one")
	}
	shell, err := tagged(ctx, m, q.Tag, false)
	if err != nil || q.Cols == 0 && q.Rows == 0 || !shell.EndedAt.IsZero() {
		return shell, err
	}
	_, err = m.ResizeShell(ctx, shell.ID, cmp.Or(int(q.Cols), shell.Cols), cmp.Or(int(q.Rows), shell.Rows))
	if fault.KindOf(err) == fault.Precondition { // it has ended meanwhile, which is told in its place
		err = nil
	}
	return shell, err
}

func errSize(cols, rows uint32) error {
	return fault.Newf(fault.Invalid, "%d columns and %d rows: each must be 1 to %d", cols, rows, maxSide)
}

// onTerminal does something with the terminal of a tag.
func (a *Agent) onTerminal(ctx context.Context, op, id, tag string, do func(Machine, remote.Shell) error) error {
	m, _, end, err := a.connected(ctx, op, id)
	if err != nil {
		return err
	}
	defer end()
	shell, err := tagged(ctx, m, tag, false)
	if err == nil {
		err = do(m, shell)
	}
	return fault.Wrap(err, op, id)
}

// PtySendInput types.
func (a *Agent) PtySendInput(ctx context.Context, req *connect.Request[pb.PtySendInputRequest]) (*connect.Response[pb.PtySendInputResponse], error) {
	q := req.Msg
	if len(q.Data) > maxTyped {
		return nil, fault.New(fault.Invalid, "type", q.SandboxId, "data has %d bytes: at most %d", len(q.Data), maxTyped)
	}
	err := a.onTerminal(ctx, "type", q.SandboxId, q.Tag, func(m Machine, shell remote.Shell) error {
		_, err := m.WriteShell(ctx, shell.ID, q.Data)
		switch fault.KindOf(err) {
		case fault.Precondition:
			return &fault.Error{Err: err, Hint: "call PtyAttach without cmd for how it ended, with cmd to open another"}
		case fault.Exhausted:
			return &fault.Error{Err: err, Hint: "wait until the program has read what it was sent, or call PtyKill"}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.PtySendInputResponse{}), nil
}

// PtyResize sets the size of a terminal.
func (a *Agent) PtyResize(ctx context.Context, req *connect.Request[pb.PtyResizeRequest]) (*connect.Response[pb.PtyResizeResponse], error) {
	q := req.Msg
	err := a.onTerminal(ctx, "resize terminal", q.SandboxId, q.Tag, func(m Machine, shell remote.Shell) error {
		if min(q.Cols, q.Rows) < 1 || max(q.Cols, q.Rows) > maxSide {
			return errSize(q.Cols, q.Rows)
		}
		_, err := m.ResizeShell(ctx, shell.ID, int(q.Cols), int(q.Rows))
		return err
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.PtyResizeResponse{}), nil
}

// PtyKill kills the program on a terminal with all that it has started.
func (a *Agent) PtyKill(ctx context.Context, req *connect.Request[pb.PtyKillRequest]) (*connect.Response[pb.PtyKillResponse], error) {
	err := a.onTerminal(ctx, "kill terminal", req.Msg.SandboxId, req.Msg.Tag, func(m Machine, shell remote.Shell) error {
		_, err := m.KillShell(ctx, shell.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.PtyKillResponse{}), nil
}
