package workspace

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// shellProgram runs bash, or sh if there is no bash. It is not a login shell, because a login shell
// would replace the PATH of the environment.
const shellProgram = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"

// Shells is a connection to the shells of a running workspace. The shells continue when the
// connection is closed. They run until they are closed, until they end, or until the machine ends.
type Shells struct {
	*client
	Spec store.Spec // specification of the workspace

	manager   *Manager
	workspace store.Workspace
	began     time.Time
}

// Shells connects to the shells of a workspace. It resumes a paused workspace.
func (m *Manager) Shells(ctx context.Context, id string) (*Shells, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	return &Shells{c, w.Spec, m, w, time.Now()}, nil
}

// Open opens a shell on a terminal. It ignores c.Argv and runs bash or sh.
func (s *Shells) Open(ctx context.Context, c program.Command) (Shell, error) {
	c.Argv = []string{"/bin/sh", "-c", shellProgram}
	c, err := inWorkspace(s.Spec, c)
	if err != nil {
		return Shell{}, err
	}
	opened, err := s.OpenPrompting(ctx, c)
	return s.recorded(ctx, opened, err)
}

// Run starts a program that accepts input and outlives its caller. The program runs on a terminal,
// or in the background if the command has no terminal. The error has kind Exists if a running
// program has the tag.
func (s *Shells) Run(ctx context.Context, tag string, c program.Command) (Shell, error) {
	c, err := inWorkspace(s.Spec, c)
	if err != nil {
		return Shell{}, err
	}
	opened, err := s.OpenTagged(ctx, tag, c, true)
	return s.recorded(ctx, opened, err)
}

// recorded records that a shell was opened, unless err is set. Its results are the parameters
// opened and err.
func (s *Shells) recorded(ctx context.Context, opened Shell, err error) (Shell, error) {
	if err == nil {
		s.manager.addEvent(ctx, s.workspace, s.began, store.EventShell, store.Detail{Name: opened.ID, Path: opened.Cwd})
	}
	return opened, err
}
