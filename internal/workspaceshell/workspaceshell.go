// Package workspaceshell runs the programs of terminal sessions inside workspaces.
package workspaceshell

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/session/process"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Workspaces implements process.Workspaces for the current user. The first call opens the database
// of workspaces.
type Workspaces struct{}

var open = sync.OnceValues(func() (*workspace.Manager, error) {
	d, err := dirs.Default()
	if err != nil {
		return nil, err
	}
	return workspace.Open(d, ""), nil
})

// login runs its argument as a command in a login shell.
const login = `if [ -x /bin/bash ]; then exec /bin/bash -lc "$1"; fi; exec /bin/sh -lc "$1"`

// Start implements process.Workspaces.
func (Workspaces) Start(ctx context.Context, spec session.Spec) (process.Shell, error) {
	m, err := open()
	if err != nil {
		return nil, err
	}
	id, err := m.IDOf(ctx, spec.WorkspaceID)
	if err != nil {
		return nil, err
	}
	shells, err := m.Shells(ctx, id)
	if err != nil {
		return nil, err
	}
	c := program.Command{
		Argv: []string{"/bin/sh", "-c", login, "sh", spec.Command}, Cwd: spec.Cwd, Env: program.Environ(spec.Env),
	}
	if !spec.Separate {
		c.TTY = &program.Terminal{Cols: spec.Cols, Rows: spec.Rows}
	}
	opened, err := shells.Run(ctx, spec.ID, c)
	if err != nil {
		shells.Close()
		return nil, err
	}
	return &shell{manager: m, workspace: id, id: opened.ID, pid: opened.PID, use: shells}, nil
}

// End implements process.Workspaces.
func (Workspaces) End(ctx context.Context, spec session.Spec) error {
	m, err := open()
	if err != nil {
		return err
	}
	id, err := m.IDOf(ctx, spec.WorkspaceID)
	if err != nil {
		return err
	}
	c, err := m.Machine(ctx, store.KindWorkspace, id)
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Tagged(ctx, spec.ID)
	for _, one := range all {
		if _, err := c.CloseShell(ctx, one.ID); err != nil {
			return err
		}
	}
	return err
}

// shell is a program in a workspace. Reads use a separate connection, which is closed when a pause
// interrupts a read.
type shell struct {
	manager   *workspace.Manager
	workspace string
	id        string
	pid       int

	mu  sync.Mutex // serializes operations
	use *workspace.Shells

	reading sync.Mutex // guards machine
	machine *workspace.Machine
}

const (
	readBytes = 256 << 10
	readWait  = 20 * time.Second
	maxTries  = 5 // maximum number of attempts at an operation, if other processes pause the workspace
)

func (s *shell) PID() int { return s.pid }

// Read implements process.Shell.
func (s *shell) Read(ctx context.Context, stream session.Stream, cursor int64) (p process.Piece, err error) {
	m, err := s.watch(ctx)
	if err != nil {
		return p, s.readError(ctx, err)
	}
	out, err := m.ReadShell(ctx, workspace.ShellRead{
		ID: s.id, Cursor: cursor, Chars: readBytes, Wait: readWait, Raw: true, Errors: stream == session.Stderr,
	})
	if err != nil {
		s.unwatch(m)
		return p, s.readError(ctx, err)
	}
	p = process.Piece{Data: out.Data, Next: out.Next, Dropped: out.Dropped, Ended: !out.EndedAt.IsZero() && !out.More}
	if e := out.Exit; p.Ended && e != nil {
		status := unix.WaitStatus(e.Code << 8)
		if e.Signal > 0 {
			status = unix.WaitStatus(e.Signal)
		}
		p.Exit = &status
	}
	return p, nil
}

// watch returns the connection for reads. It does not resume a paused workspace.
func (s *shell) watch(ctx context.Context) (m *workspace.Machine, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.machine == nil {
		s.machine, err = s.manager.Machine(ctx, store.KindWorkspace, s.workspace)
	}
	return s.machine, err
}

// unwatch closes the connection for reads after an error.
func (s *shell) unwatch(m *workspace.Machine) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.machine == m {
		s.machine = nil
		m.Close()
	}
}

// readError returns process.ErrPaused if a read failed because the workspace is paused, or is just
// being paused or resumed. Otherwise it returns another error.
func (s *shell) readError(ctx context.Context, err error) error {
	if kind := fault.KindOf(err); kind != fault.Unavailable && kind != fault.Precondition || ctx.Err() != nil {
		return err
	}
	now, failed := s.manager.Get(ctx, store.KindWorkspace, s.workspace)
	switch {
	case failed != nil:
		return failed
	case now.State == workspace.Paused || now.State == workspace.Started:
		return process.ErrPaused
	}
	return fault.New(fault.Unavailable, "use workspace", s.workspace, "it was stopped: %s", now.StateReason)
}

// do calls f. If the workspace is paused, it resumes the workspace and tries again.
func (s *shell) do(ctx context.Context, f func(*workspace.Shells) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range maxTries {
		if s.use == nil {
			if s.use, err = s.manager.Shells(ctx, s.workspace); err != nil {
				return err
			}
		}
		if err = f(s.use); fault.KindOf(err) != fault.Unavailable {
			return err
		}
		s.use.Close()
		s.use = nil
	}
	return fmt.Errorf("tried %d times: %w", maxTries, err)
}

func (s *shell) Write(ctx context.Context, b []byte) error {
	return s.do(ctx, func(c *workspace.Shells) error { return c.TypeShell(ctx, s.id, b) })
}

func (s *shell) LineLimit(ctx context.Context) (limit int, err error) {
	err = s.do(ctx, func(c *workspace.Shells) error { limit, err = c.LineLimit(ctx, s.id); return err })
	return limit, err
}

func (s *shell) Resize(ctx context.Context, cols, rows int) error {
	return s.do(ctx, func(c *workspace.Shells) error { _, err := c.ResizeShell(ctx, s.id, cols, rows); return err })
}

func (s *shell) Signal(ctx context.Context, sig unix.Signal) error {
	return s.do(ctx, func(c *workspace.Shells) error { _, err := c.SignalShell(ctx, s.id, sig); return err })
}

func (s *shell) Kill(ctx context.Context) error {
	return s.do(ctx, func(c *workspace.Shells) error { _, err := c.KillShell(ctx, s.id); return err })
}

func (s *shell) Close(ctx context.Context) error {
	return s.do(ctx, func(c *workspace.Shells) error { _, err := c.CloseShell(ctx, s.id); return err })
}
