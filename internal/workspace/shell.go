package workspace

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// shellProgram is what a shell runs: bash where there is one. It is no login shell: that would forget the search path of the environment.
const shellProgram = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"

// Shells is a connection to the shells of a workspace that runs: they live in its machine until they are closed, end by themselves, or the machine ends. Close it;
// the shells stay.
type Shells struct {
	*remote.Client
	Spec store.Spec // of the workspace

	manager   *Manager
	workspace store.Workspace
	began     time.Time
}

// Shells connects to the shells of a workspace.
func (m *Manager) Shells(ctx context.Context, id string) (*Shells, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	return &Shells{c, w.Spec, m, w, time.Now()}, nil
}

// Open opens a shell as a command says, but for what it runs. The command has a terminal.
func (s *Shells) Open(ctx context.Context, c Command) (remote.Shell, error) {
	c.Argv = []string{"/bin/sh", "-c", shellProgram}
	opened, err := s.OpenPrompting(ctx, c.in(s.Spec), c.Secrets...)
	if err == nil {
		s.manager.note(ctx, s.workspace, s.began, store.EventShell, store.Detail{Name: opened.ID, Path: opened.Cwd})
	}
	return opened, err
}
