package pyro

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/store"
)

// WorkspaceStates are the possible states of a workspace.
var WorkspaceStates = []WorkspaceState{StateStarted, StateStopped, StatePaused, StateDamaged}

// WorkspaceFilter selects workspaces. The zero value selects all.
type WorkspaceFilter struct {
	Labels map[string]string `json:"labels,omitempty"` // select workspaces that have all of these labels
	State  WorkspaceState    `json:"state,omitempty"`  // select workspaces in this state
}

func (f WorkspaceFilter) check() error {
	if f.State != "" && !slices.Contains(WorkspaceStates, f.State) {
		return invalid("state is %q: it must be %s, %s, %s or %s", f.State, StateStarted, StateStopped, StatePaused, StateDamaged)
	}
	return nil
}

func (f WorkspaceFilter) has(w *Workspace) bool {
	for key, value := range f.Labels {
		if is, ok := w.Labels[key]; !ok || is != value {
			return false
		}
	}
	return f.State == "" || f.State == w.State
}

// ListWorkspaces returns the workspaces that match all filters, most recently used first.
func (p *Pyro) ListWorkspaces(ctx context.Context, filters ...WorkspaceFilter) ([]WorkspaceSummary, error) {
	matching, err := p.matching(ctx, filters)
	if err != nil {
		return nil, err
	}
	all := make([]WorkspaceSummary, 0, len(matching))
	for _, w := range matching {
		all = append(all, WorkspaceSummary{
			w.WorkspaceID, w.Name, w.Labels, w.Environment, w.Isolation, w.State, w.StateReason,
			w.CreatedAt, w.LastActivityAt, w.ExpiresAt, w.CommandCount, w.ServiceCount, w.RunningCount,
		})
	}
	return all, nil
}

// matching returns the workspaces that match all filters, most recently used first.
func (p *Pyro) matching(ctx context.Context, filters []WorkspaceFilter) ([]*Workspace, error) {
	for _, f := range filters {
		if err := f.check(); err != nil {
			return nil, err
		}
	}
	found, err := p.workspaces.List(ctx, store.KindWorkspace)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	var all []*Workspace
	for _, w := range found {
		full := p.newWorkspace(w)
		if !slices.ContainsFunc(filters, func(f WorkspaceFilter) bool { return !f.has(full) }) {
			all = append(all, full)
		}
	}
	return all, nil
}
