package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// BaselineSnapshot is the name of the snapshot with the initial state of a workspace.
const BaselineSnapshot = workspace.Baseline

// Snapshot is a state that a workspace can be reset to.
type Snapshot struct {
	SnapshotName string    `json:"snapshot_name"`
	Kind         string    `json:"kind"`       // baseline or named
	Full         bool      `json:"full"`       // it includes the root disk, not only /workspace
	SizeBytes    int64     `json:"size_bytes"` // size on the host, including blocks that are shared with other files
	CreatedAt    time.Time `json:"created_at"`
}

// CreateSnapshotRequest names a new snapshot.
type CreateSnapshotRequest struct {
	WorkspaceID  string `json:"workspace_id"`
	SnapshotName string `json:"snapshot_name"`  // letters, digits, dots, dashes and underscores
	Full         bool   `json:"full,omitempty"` // include the root disk, for example installed packages

	Progress ProgressFunc `json:"-"`
}

// WorkspaceSnapshot is a snapshot of a workspace.
type WorkspaceSnapshot struct {
	WorkspaceID string   `json:"workspace_id"`
	Snapshot    Snapshot `json:"snapshot"`
}

// CreateSnapshot saves the current state of a workspace under a name. If the workspace runs, its
// file systems are frozen for a moment, so that the snapshot is consistent.
func (p *Pyro) CreateSnapshot(ctx context.Context, req CreateSnapshotRequest) (*WorkspaceSnapshot, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	req.Progress.adapt().Phase("saving files", req.WorkspaceID)
	s, err := p.workspaces.CreateSnapshot(ctx, req.WorkspaceID, req.SnapshotName, req.Full)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &WorkspaceSnapshot{req.WorkspaceID, newSnapshot(s)}, nil
}

// WorkspaceSnapshots are the snapshots of a workspace.
type WorkspaceSnapshots struct {
	WorkspaceID string     `json:"workspace_id"`
	Count       int        `json:"count"`
	Snapshots   []Snapshot `json:"snapshots"` // the baseline, then the other snapshots, oldest first
}

// ListSnapshots returns the baseline of a workspace and its snapshots.
func (p *Pyro) ListSnapshots(ctx context.Context, workspaceID string) (*WorkspaceSnapshots, error) {
	if err := p.named(ctx, &workspaceID); err != nil {
		return nil, err
	}
	found, err := p.workspaces.Snapshots(ctx, workspaceID)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	all := &WorkspaceSnapshots{WorkspaceID: workspaceID, Count: len(found), Snapshots: []Snapshot{}}
	for _, s := range found {
		all.Snapshots = append(all.Snapshots, newSnapshot(s))
	}
	return all, nil
}

// DeletedSnapshot names a snapshot that was deleted.
type DeletedSnapshot struct {
	WorkspaceID  string `json:"workspace_id"`
	SnapshotName string `json:"snapshot_name"`
	Deleted      bool   `json:"deleted"`
}

// DeleteSnapshot deletes a snapshot. The baseline can't be deleted.
func (p *Pyro) DeleteSnapshot(ctx context.Context, workspaceID, name string) (*DeletedSnapshot, error) {
	if err := p.named(ctx, &workspaceID); err != nil {
		return nil, err
	}
	if err := p.workspaces.DeleteSnapshot(ctx, workspaceID, name); err != nil {
		return nil, causeOf(ctx, err)
	}
	return &DeletedSnapshot{workspaceID, name, true}, nil
}

// ResetWorkspaceRequest names the snapshot to reset to.
type ResetWorkspaceRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	Snapshot    string       `json:"snapshot,omitempty"` // default BaselineSnapshot
	Progress    ProgressFunc `json:"-"`
}

// ResetWorkspace resets a workspace to its baseline or to a snapshot, and starts a new machine. The
// root disk is fresh, unless the snapshot is a full one. ResetWorkspace deletes the history. The
// ID, name, labels, snapshots and baseline do not change.
func (p *Pyro) ResetWorkspace(ctx context.Context, req ResetWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Reset(ctx, req.WorkspaceID, req.Snapshot, req.Progress.adapt())
	return p.workspaceOf(ctx, w, err)
}

// ForkWorkspaceRequest describes forks of a workspace. A single fork is called Name; several forks
// are called NAME-1, NAME-2 and so on. If Name is empty, the forks are named after their source.
type ForkWorkspaceRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Snapshot    string            `json:"snapshot,omitempty"` // snapshot to start from; default: the current state, including the root disk.
	Live        bool              `json:"live,omitempty"`     // also copy the running programs; the source must be running or paused
	Count       int               `json:"count,omitempty"`    // 1 to MaxForks; default 1
	Name        string            `json:"name,omitempty"`     // for all forks
	Labels      map[string]string `json:"labels,omitempty"`   // for all forks
	Progress    ProgressFunc      `json:"-"`
}

// MaxForks is the largest number of forks in one call.
const MaxForks = workspace.MaxForks

// ForkedWorkspaces are the new workspaces.
type ForkedWorkspaces struct {
	WorkspaceID string      `json:"workspace_id"` // of the source
	Count       int         `json:"count"`
	Workspaces  []Workspace `json:"workspaces"`
}

// ForkWorkspace creates forks: workspaces that start from the current state or a snapshot of
// another workspace, their source. This state is the baseline of each fork. Forks run independently
// of their source.
//
// With Live, a fork also gets the processes, terminals, services and memory of the source. It has a
// new machine-id, host name, boot id and new SSH host keys, and its copies of open connections are
// closed. The source is frozen while its memory is saved.
//
// If a fork can't be created, ForkWorkspace returns the other forks together with the error.
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
		return nil, causeOf(ctx, err)
	}
	all := &ForkedWorkspaces{WorkspaceID: req.WorkspaceID, Count: len(made)}
	for _, w := range made {
		all.Workspaces = append(all.Workspaces, *p.newWorkspace(w))
	}
	if err != nil {
		err = causeOf(ctx, err)
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
