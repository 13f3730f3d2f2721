package hostagent

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// These are the default and maximum sizes of a terminal, and the maximum input per call in bytes.
const (
	defaultCols = 80
	defaultRows = 24
	maxSide     = 1000
	maxTyped    = 1 << 20
)

// PtyAttach starts a program on a terminal, or attaches to a running program. It streams the output
// until the program ends.
func (a *Agent) PtyAttach(ctx context.Context, req *connect.Request[pb.PtyAttachRequest], to *connect.ServerStream[pb.PtyAttachResponse]) error {
	q := req.Msg
	m, s, end, err := a.connected(ctx, "attach to terminal", q.SandboxId)
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := a.streamContext(ctx)
	defer stop(nil)
	shell, err := s.terminal(ctx, m, q)
	if err != nil {
		return fault.Wrap(err, "attach to terminal", q.SandboxId)
	}
	cursor := shell.AckedBytes
	if q.Offset != nil {
		if cursor = *q.Offset; cursor < 0 || cursor > shell.OutputBytes {
			return fault.New(fault.Invalid, "attach to terminal", q.SandboxId, "offset is %d: it must be 0 to %d", cursor, shell.OutputBytes)
		}
	}
	err = to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Started{Started: &pb.PtyStarted{Pid: uint32(shell.PID), Tag: shell.Tag}}})
	if err != nil {
		return err
	}
	last, err := follow(ctx, m, workspace.ShellRead{ID: shell.ID, Cursor: cursor}, true, func(out workspace.ShellOutput) error {
		return to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Output{Output: &pb.PtyOutput{Data: out.Data, Offset: out.From}}})
	})
	var exited pb.PtyExited
	if err == nil {
		exited.ExitCode, exited.Error, err = exitResult(last)
	}
	if err != nil {
		return fault.Wrap(err, "watch terminal", shell.Tag)
	}
	return to.Send(&pb.PtyAttachResponse{Event: &pb.PtyAttachResponse_Exited{Exited: &exited}})
}

// terminal starts the program of a request on a terminal. If the request has no program, terminal
// finds the program with the request's tag and resizes its terminal.
func (s *sandbox) terminal(ctx context.Context, m Machine, q *pb.PtyAttachRequest) (workspace.Shell, error) {
	if q.Cols > maxSide || q.Rows > maxSide {
		return workspace.Shell{}, errSize(q.Cols, q.Rows)
	}
	if q.Cmd != "" {
		c, err := s.command(q)
		if err != nil {
			return workspace.Shell{}, err
		}
		c.TTY = &program.Terminal{Cols: int(cmp.Or(q.Cols, defaultCols)), Rows: int(cmp.Or(q.Rows, defaultRows))}
		return openTagged(ctx, m, q.Tag, "pty-", c)
	}
	if q.Tag == "" {
		return workspace.Shell{}, fault.Newf(fault.Invalid, "both cmd and tag are missing").WithHint("set cmd to start a program, or tag to attach to one")
	}
	shell, err := findTagged(ctx, m, q.Tag, false)
	if err != nil || q.Cols == 0 && q.Rows == 0 || !shell.EndedAt.IsZero() {
		return shell, err
	}
	_, err = m.ResizeShell(ctx, shell.ID, cmp.Or(int(q.Cols), shell.Cols), cmp.Or(int(q.Rows), shell.Rows))
	if fault.KindOf(err) == fault.Precondition { // the program has ended, and the stream reports that
		err = nil
	}
	return shell, err
}

func errSize(cols, rows uint32) error {
	return fault.Newf(fault.Invalid, "%d columns and %d rows: each must be 1 to %d", cols, rows, maxSide)
}

// onTerminal finds the program with a tag and a terminal, and calls the function do with it.
func (a *Agent) onTerminal(ctx context.Context, op, id, tag string, do func(Machine, workspace.Shell) error) error {
	m, _, end, err := a.connected(ctx, op, id)
	if err != nil {
		return err
	}
	defer end()
	shell, err := findTagged(ctx, m, tag, false)
	if err == nil {
		err = do(m, shell)
	}
	return fault.Wrap(err, op, id)
}

// PtySendInput types into a terminal.
func (a *Agent) PtySendInput(ctx context.Context, req *connect.Request[pb.PtySendInputRequest]) (*connect.Response[pb.PtySendInputResponse], error) {
	q := req.Msg
	if len(q.Data) > maxTyped {
		return nil, fault.New(fault.Invalid, "type", q.SandboxId, "data has %d bytes: it must have at most %d", len(q.Data), maxTyped)
	}
	err := a.onTerminal(ctx, "type", q.SandboxId, q.Tag, func(m Machine, shell workspace.Shell) error {
		_, err := m.WriteShell(ctx, shell.ID, q.Data)
		switch fault.KindOf(err) {
		case fault.Precondition:
			return &fault.Error{Err: err, Hint: "call PtyAttach without cmd to see how it ended, or with cmd to start another"}
		case fault.Exhausted:
			return &fault.Error{Err: err, Hint: "wait until the program has read its input, or call PtyKill"}
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
	err := a.onTerminal(ctx, "resize terminal", q.SandboxId, q.Tag, func(m Machine, shell workspace.Shell) error {
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

// PtyKill kills the program on a terminal, and its descendants.
func (a *Agent) PtyKill(ctx context.Context, req *connect.Request[pb.PtyKillRequest]) (*connect.Response[pb.PtyKillResponse], error) {
	err := a.onTerminal(ctx, "kill terminal", req.Msg.SandboxId, req.Msg.Tag, func(m Machine, shell workspace.Shell) error {
		_, err := m.KillShell(ctx, shell.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.PtyKillResponse{}), nil
}
