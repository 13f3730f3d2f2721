package daemon

import (
	"context"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/terminal"
)

const (
	maxChars    = 1 << 20 // characters in one answer
	maxBefore   = 1 << 20 // bytes of earlier output that are used to compute the screen
	maxWait     = 60 * time.Second
	maxTerminal = 1000 // largest number of columns or rows
)

// OpenShell starts a shell.
func (s *server) OpenShell(ctx context.Context, req *connect.Request[supervisorv1.OpenShellRequest]) (*connect.Response[supervisorv1.OpenShellResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	start, op := req.Msg.Start, "open shell"
	if start != nil && start.Tty == nil {
		op = "start command"
	}
	switch {
	case start == nil || len(start.Argv) == 0:
		return nil, fault.New(fault.Invalid, op, "", "there is no program")
	case start.Tty != nil && !validSize(start.Tty):
		return nil, fault.New(fault.Invalid, op, "", "a terminal has 1 to %d columns and rows", maxTerminal)
	case start.Tty != nil && req.Msg.Record:
		return nil, fault.New(fault.Invalid, op, "", "a program on a terminal can't be in the history")
	case len(req.Msg.Tag) > maxTag:
		return nil, fault.New(fault.Invalid, op, "", "its tag has more than %d bytes", maxTag)
	}
	opened, err := s.daemon.openShell(ctx, req.Msg)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	return connect.NewResponse(&supervisorv1.OpenShellResponse{Shell: opened.info()}), nil
}

func validSize(s *programv1.Size) bool {
	return s != nil && s.Cols >= 1 && s.Cols <= maxTerminal && s.Rows >= 1 && s.Rows <= maxTerminal
}

// ListShells lists the shells.
func (s *server) ListShells(ctx context.Context, req *connect.Request[supervisorv1.ListShellsRequest]) (*connect.Response[supervisorv1.ListShellsResponse], error) {
	if err := s.daemon.released(ctx); err != nil {
		return nil, err
	}
	r := &supervisorv1.ListShellsResponse{}
	for _, one := range s.daemon.shells.list() {
		if req.Msg.Tag == "" || req.Msg.Tag == one.tag {
			m := one.info()
			m.Argv = one.argv
			r.Shells = append(r.Shells, m)
		}
	}
	return connect.NewResponse(r), nil
}

// onShell begins an operation on a shell and finds the shell. The caller must call the function
// done when the operation has ended.
func (s *server) onShell(ctx context.Context, id string, begin func(context.Context) (func(), error)) (one *shell, done func(), err error) {
	if done, err = begin(ctx); err != nil {
		return nil, nil, err
	}
	if one, err = s.daemon.findShell(id); err != nil {
		done()
		return nil, nil, err
	}
	return one, done, nil
}

// ReadShell reads the output of a shell.
func (s *server) ReadShell(ctx context.Context, req *connect.Request[supervisorv1.ReadShellRequest]) (*connect.Response[supervisorv1.ReadShellResponse], error) {
	m := req.Msg
	one, done, err := s.onShell(ctx, m.ShellId, s.beginLong)
	if err != nil {
		return nil, err
	}
	defer done()
	if m.Cursor < 0 || m.MaxChars < 1 || m.MaxChars > maxChars || m.IdleMs < 0 || m.WaitMs < 0 {
		return nil, fault.New(fault.Invalid, "read shell", m.ShellId, "a cursor, a number of characters or a time is out of its range")
	}
	log := one.log
	if m.Errors {
		if log = one.errs; log == nil {
			return nil, fault.New(fault.Precondition, "read shell", one.shellID, "a terminal has only one output")
		}
	}
	one.consume(m.Taken)
	if err := one.waitFor(ctx, log, m); err != nil {
		return nil, err
	}
	if one.isSuspended() {
		return nil, fault.Wrap(errSuspended, "read shell", one.shellID)
	}
	info := one.info() // read before the data: if it says that the shell has ended, the log is complete
	read := log.Read
	if m.Raw {
		read = log.ReadRaw
	}
	piece := read(m.Cursor, int(m.MaxChars))
	plain := m.Plain && !one.inBackground()
	if plain {
		piece = withoutUnfinished(piece)
	}
	r := &supervisorv1.ReadShellResponse{Shell: info, Data: piece.Data, From: piece.From, Next: piece.Next, Dropped: piece.Dropped, More: piece.More}
	switch {
	case plain:
		r.Data, r.Plain = nil, []byte(one.plain(piece, int(m.MaxChars)))
	case m.Screen:
		r.Before = one.before(piece.From)
	}
	return connect.NewResponse(r), nil
}

// withoutUnfinished returns a piece of output without an incomplete control sequence at its end.
// The next read returns the sequence, as it does with an incomplete character. If the piece has
// nothing else, or is the end of the output, it stays whole, so that every read makes progress.
func withoutUnfinished(p program.Piece) program.Piece {
	n := terminal.Unfinished(p.Data)
	if p.Ended || n == len(p.Data) {
		return p
	}
	p.Data, p.Next = p.Data[:len(p.Data)-n], p.Next-int64(n)
	return p
}

const minPlain = 4096 // bytes of plain text that are allowed even if fewer characters were requested

// plain returns a piece of output as a person sees it on the terminal. It redacts secrets once
// more, because a program can assemble a secret on the screen by moving the cursor.
func (s *shell) plain(piece program.Piece, chars int) string {
	s.mu.Lock()
	cols, rows := int(s.cols), int(s.rows)
	s.mu.Unlock()
	return s.daemon.secrets.Text(terminal.Plain(cols, rows, max(chars, minPlain), s.before(piece.From), piece.Data))
}

// waitFor waits as the request demands. If the time limit is reached, it returns no error. A shell
// that has not yet reacted to input does not count as idle, unless MaxChars characters are
// available.
func (s *shell) waitFor(ctx context.Context, log *program.Log, m *supervisorv1.ReadShellRequest) error {
	wait := maxWait
	if m.WaitMs > 0 {
		wait = min(wait, time.Duration(m.WaitMs)*time.Millisecond)
	}
	long, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if m.WaitMs > 0 {
		log.Wait(long, m.Cursor)
	}
	if m.IdleMs > 0 {
		if log.Len()-m.Cursor < int64(m.MaxChars) {
			s.awaitAnswer(long)
		}
		log.WaitIdle(long, m.Cursor, time.Duration(m.IdleMs)*time.Millisecond, int(m.MaxChars))
	}
	return context.Cause(ctx)
}

// consume records that the client has received all output before offset.
func (s *shell) consume(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consumed = max(s.consumed, min(offset, s.log.Len()))
}

// before returns the output since the alternate screen was entered. It returns nil if the alternate
// screen is not active at the given offset.
func (s *shell) before(at int64) []byte {
	s.mu.Lock()
	since, alternate := s.switches.Alternate(at)
	s.mu.Unlock()
	if !alternate {
		return nil
	}
	const show = "\x1b[?1049h"
	if at-since <= maxBefore {
		if b := s.log.Bytes(since, at); int64(len(b)) == at-since {
			return b
		}
	}
	return append([]byte(show), s.log.Bytes(at-maxBefore+int64(len(show)), at)...)
}

// WriteShell adds input to a shell, or returns the limit of its terminal.
func (s *server) WriteShell(ctx context.Context, req *connect.Request[supervisorv1.WriteShellRequest]) (*connect.Response[supervisorv1.WriteShellResponse], error) {
	one, done, err := s.onShell(ctx, req.Msg.ShellId, s.begin)
	if err != nil {
		return nil, err
	}
	defer done()
	if !one.input {
		return nil, fault.New(fault.Precondition, "write to shell", one.shellID, "it was started without input")
	}
	r := &supervisorv1.WriteShellResponse{}
	longest := one.in.longest(req.Msg.Data)
	if ask := len(req.Msg.Data) == 0; ask || longest > program.LineLimit && !req.Msg.Anyway {
		limit := one.lineLimit(ctx)
		if ask {
			r.Shell, r.LineLimit = one.info(), uint32(limit)
			return connect.NewResponse(r), nil
		}
		if err := program.CheckLine(longest, limit); err != nil {
			return nil, fault.Wrap(err, "write to shell", one.shellID)
		}
	}
	one.ask()
	if err := one.in.put(req.Msg.Data); err != nil {
		return nil, fault.Wrap(err, "write to shell", one.shellID)
	}
	r.Shell = one.info()
	return connect.NewResponse(r), nil
}

// SignalShell sends a signal to the foreground group of a shell, or kills the shell with all its
// descendants.
func (s *server) SignalShell(ctx context.Context, req *connect.Request[supervisorv1.SignalShellRequest]) (*connect.Response[supervisorv1.SignalShellResponse], error) {
	one, done, err := s.onShell(ctx, req.Msg.ShellId, s.begin)
	if err != nil {
		return nil, err
	}
	defer done()
	switch {
	case req.Msg.Signal < 1 || req.Msg.Signal > 64:
		return nil, fault.New(fault.Invalid, "signal shell", one.shellID, "no such signal: %d", req.Msg.Signal)
	case req.Msg.Tree && syscall.Signal(req.Msg.Signal) != syscall.SIGKILL:
		return nil, fault.New(fault.Invalid, "signal shell", one.shellID, "its process tree can only be killed")
	case req.Msg.Tree:
		if err := one.kill(ctx); err != nil {
			return nil, fault.Wrap(err, "kill shell", one.shellID)
		}
		return connect.NewResponse(&supervisorv1.SignalShellResponse{Shell: one.info()}), nil
	case one.hasEnded():
		return nil, fault.New(fault.Precondition, "signal shell", one.shellID, "it has ended")
	}
	if err := one.signal(ctx, syscall.Signal(req.Msg.Signal)); err != nil {
		return nil, fault.Wrap(err, "signal shell", one.shellID)
	}
	return connect.NewResponse(&supervisorv1.SignalShellResponse{Shell: one.info()}), nil
}

// ResizeShell resizes the terminal of a shell.
func (s *server) ResizeShell(ctx context.Context, req *connect.Request[supervisorv1.ResizeShellRequest]) (*connect.Response[supervisorv1.ResizeShellResponse], error) {
	one, done, err := s.onShell(ctx, req.Msg.ShellId, s.begin)
	if err != nil {
		return nil, err
	}
	defer done()
	size := req.Msg.Size
	switch {
	case !validSize(size):
		return nil, fault.New(fault.Invalid, "resize shell", one.shellID, "a terminal has 1 to %d columns and rows", maxTerminal)
	case one.inBackground():
		return nil, fault.New(fault.Precondition, "resize shell", one.shellID, "it has no terminal")
	case one.hasEnded():
		return nil, fault.New(fault.Precondition, "resize shell", one.shellID, "it has ended")
	}
	if err := one.resize(ctx, int(size.Cols), int(size.Rows)); err != nil {
		return nil, fault.Wrap(err, "resize shell", one.shellID)
	}
	one.mu.Lock()
	one.cols, one.rows = size.Cols, size.Rows
	one.mu.Unlock()
	return connect.NewResponse(&supervisorv1.ResizeShellResponse{Shell: one.info()}), nil
}

// CloseShell ends a shell if it still runs, and deletes it.
func (s *server) CloseShell(ctx context.Context, req *connect.Request[supervisorv1.CloseShellRequest]) (*connect.Response[supervisorv1.CloseShellResponse], error) {
	one, done, err := s.onShell(ctx, req.Msg.ShellId, s.begin)
	if err != nil {
		return nil, err
	}
	defer done()
	one.hangUp(ctx)
	s.daemon.shells.remove(one)
	return connect.NewResponse(&supervisorv1.CloseShellResponse{Shell: one.info()}), nil
}
