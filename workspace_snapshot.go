package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// BaselineSnapshot names the state in which a workspace was created.
const BaselineSnapshot = workspace.Baseline

// Snapshot is a state that a workspace can be reset to.
type Snapshot struct {
	SnapshotName string    `json:"snapshot_name"`
	Kind         string    `json:"kind"`       // baseline or named
	Full         bool      `json:"full"`       // the root disk too, not /workspace alone
	SizeBytes    int64     `json:"size_bytes"` // that it takes on the host, what it shares with others counted in
	CreatedAt    time.Time `json:"created_at"`
}

// CreateSnapshotRequest says what to keep.
type CreateSnapshotRequest struct {
	WorkspaceID  string `json:"workspace_id"`
	SnapshotName string `json:"snapshot_name"`  // letters, digits, dots, dashes and underscores
	Full         bool   `json:"full,omitempty"` // the root disk too: what was installed, for one
}

// WorkspaceSnapshot is a snapshot of a workspace.
type WorkspaceSnapshot struct {
	WorkspaceID string   `json:"workspace_id"`
	Snapshot    Snapshot `json:"snapshot"`
}

// CreateSnapshot keeps the present state of a workspace under a name. The workspace may run: its file systems are held for a moment, so that what is kept is
// consistent.
func (p *Pyro) CreateSnapshot(ctx context.Context, req CreateSnapshotRequest) (*WorkspaceSnapshot, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	s, err := p.workspaces.CreateSnapshot(ctx, req.WorkspaceID, req.SnapshotName, req.Full)
	if err != nil {
		return nil, because(ctx, err)
	}
	return &WorkspaceSnapshot{req.WorkspaceID, newSnapshot(s)}, nil
}

// WorkspaceSnapshots are the snapshots of a workspace.
type WorkspaceSnapshots struct {
	WorkspaceID string     `json:"workspace_id"`
	Count       int        `json:"count"`
	Snapshots   []Snapshot `json:"snapshots"` // the baseline first, then the oldest
}

// ListSnapshots gives the baseline of a workspace and its snapshots.
func (p *Pyro) ListSnapshots(ctx context.Context, workspaceID string) (*WorkspaceSnapshots, error) {
	if err := p.named(ctx, &workspaceID); err != nil {
		return nil, err
	}
	found, err := p.workspaces.Snapshots(ctx, workspaceID)
	if err != nil {
		return nil, because(ctx, err)
	}
	all := &WorkspaceSnapshots{WorkspaceID: workspaceID, Count: len(found), Snapshots: []Snapshot{}}
	for _, s := range found {
		all.Snapshots = append(all.Snapshots, newSnapshot(s))
	}
	return all, nil
}

// DeletedSnapshot tells that a snapshot is gone.
type DeletedSnapshot struct {
	WorkspaceID  string `json:"workspace_id"`
	SnapshotName string `json:"snapshot_name"`
	Deleted      bool   `json:"deleted"`
}

// DeleteSnapshot forgets a snapshot. The baseline can't be deleted.
func (p *Pyro) DeleteSnapshot(ctx context.Context, workspaceID, name string) (*DeletedSnapshot, error) {
	if err := p.named(ctx, &workspaceID); err != nil {
		return nil, err
	}
	if err := p.workspaces.DeleteSnapshot(ctx, workspaceID, name); err != nil {
		return nil, because(ctx, err)
	}
	return &DeletedSnapshot{workspaceID, name, true}, nil
}

// ResetWorkspaceRequest says what to reset a workspace to.
type ResetWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Snapshot    string       `json:"snapshot,omitempty"` // default BaselineSnapshot
	Progress    ProgressFunc `json:"-"`
}

// ResetWorkspace gives a workspace a new machine, with a fresh root, or that of a full snapshot, and the /workspace of the baseline or a snapshot. Its history is
// forgotten; its id, name, labels, snapshots and the baseline that it is compared with stay. It runs afterwards.
func (p *Pyro) ResetWorkspace(ctx context.Context, req ResetWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Reset(ctx, req.WorkspaceID, req.Snapshot, req.Progress.adapt())
	return workspaceOf(ctx, w, err)
}

// ForkWorkspaceRequest says what to make copies of. One copy is called Name; several are called NAME-1, NAME-2 and so on; without Name they are called so after their
// source.
type ForkWorkspaceRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Snapshot    string            `json:"snapshot,omitempty"` // default: as it is now, the root disk too
	Live        bool              `json:"live,omitempty"`     // all that runs in it goes on in each of them; it runs, or is paused
	Count       int               `json:"count,omitempty"`    // 1 to MaxForks; default 1
	Name        string            `json:"name,omitempty"`     // of all of them
	Labels      map[string]string `json:"labels,omitempty"`   // of all of them
	Progress    ProgressFunc      `json:"-"`
}

// MaxForks is how many workspaces one call of ForkWorkspace makes at most.
const MaxForks = workspace.MaxForks

// ForkedWorkspaces are those that were made.
type ForkedWorkspaces struct {
	WorkspaceID string      `json:"workspace_id"` // of the source
	Count       int         `json:"count"`
	Workspaces  []Workspace `json:"workspaces"`
}

// ForkWorkspace makes new workspaces that begin as another one is, or as a snapshot of it. They run, each by itself, and what they began as is their baseline. With Live
// they have its processes, terminals, services and memory, but a machine-id, a host name, a boot id and SSH host keys of their own; connections that were open are closed in
// them, and the source stands still while its memory is written. Where one of them can't be made, the result has those that were, with the error.
func (p *Pyro) ForkWorkspace(ctx context.Context, req ForkWorkspaceRequest) (*ForkedWorkspaces, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("count", &req.Count, 1, 1, MaxForks); err != nil {
		return nil, err
	}
	made, err := p.workspaces.Fork(ctx, req.WorkspaceID, req.Snapshot, req.Live, req.Count, workspace.Spec{
		Name: req.Name, Labels: req.Labels, Progress: req.Progress.adapt(),
	})
	if err != nil && len(made) == 0 {
		return nil, because(ctx, err)
	}
	all := &ForkedWorkspaces{WorkspaceID: req.WorkspaceID, Count: len(made)}
	for _, w := range made {
		all.Workspaces = append(all.Workspaces, *newWorkspace(w))
	}
	if err != nil {
		err = because(ctx, err)
	}
	return all, err
}

func newSnapshot(s workspace.Snapshot) Snapshot {
	kind := "named"
	if s.Baseline {
		kind = "baseline"
	}
	return Snapshot{s.Name, kind, s.Whole, s.SizeBytes, s.CreatedAt}
}
