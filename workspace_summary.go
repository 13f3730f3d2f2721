package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// The bounds of a WorkspaceActivity.
const (
	MaxRecent         = store.KeptEvents // of what was done, of each kind
	MaxRecentChanges  = 100              // paths that differ
	MaxRecentLineSize = 1000             // bytes of a command
)

// WorkspaceActivity is what was done in a workspace since it was created or last reset, and what came of it. Each list has the last MaxRecent at most, the oldest
// first; how many there were is told beside it. Paths of more than 1 KiB are cut. The values of secrets are hidden in it.
type WorkspaceActivity struct {
	WorkspaceID      string            `json:"workspace_id"`
	Name             string            `json:"name"`
	Labels           map[string]string `json:"labels"`
	Environment      string            `json:"environment"`
	State            WorkspaceState    `json:"state"`
	StateReason      string            `json:"state_reason,omitempty"` // why it is stopped or damaged
	WorkspacePath    string            `json:"workspace_path"`
	ExecutionMode    ExecutionMode     `json:"execution_mode"`
	Isolation        Isolation         `json:"isolation"`
	LastActivityAt   time.Time         `json:"last_activity_at"`
	SessionStartedAt time.Time         `json:"session_started_at"` // when it was created or last reset

	Outcome   ActivityOutcome   `json:"outcome"`
	Commands  RecentCommands    `json:"commands"`
	Edits     RecentEdits       `json:"edits"`
	Changes   ActivityChanges   `json:"changes"`
	Services  RecentServices    `json:"services"`
	Shells    RecentShells      `json:"shells"`
	Artifacts RecentArtifacts   `json:"artifacts"`
	Snapshots SnapshotsActivity `json:"snapshots"`
}

// ActivityOutcome counts what was done.
type ActivityOutcome struct {
	CommandCount  int            `json:"command_count"`
	LastCommand   *RecentCommand `json:"last_command"` // null where there was none
	EditCount     int            `json:"edit_count"`   // files that were written, patches and syncs
	PatchCount    int            `json:"patch_count"`  // of them
	SyncCount     int            `json:"sync_count"`   // of them
	ServiceCount  int            `json:"service_count"`
	RunningCount  int            `json:"running_service_count"`
	ShellCount    int            `json:"shell_count"` // that were opened
	ExportCount   int            `json:"export_count"`
	SnapshotCount int            `json:"snapshot_count"` // that are there
	ResetCount    int            `json:"reset_count"`    // since it was created
}

// RecentCommands are the last commands of a workspace.
type RecentCommands struct {
	Total  int             `json:"total"`
	Failed int             `json:"failed"` // of all of them: ended, and not with exit code 0
	Recent []RecentCommand `json:"recent"`
}

// RecentCommand is a command without its output, which LogsWorkspace has.
type RecentCommand struct {
	Sequence   int        `json:"sequence"`
	Command    string     `json:"command"` // as a shell would be told it, cut at MaxRecentLineSize
	Cwd        string     `json:"cwd"`
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at"`  // null: it runs, or its machine ended before it did
	ExitCode   *int       `json:"exit_code"` // null where nobody saw its end
	TimedOut   bool       `json:"timed_out"`
	DurationMS float64    `json:"duration_ms"`
}

// EditKind says how files were changed.
type EditKind string

// The kinds.
const (
	EditWrite EditKind = "write" // WriteWorkspaceFile
	EditPatch EditKind = "patch" // ApplyWorkspacePatch
	EditSync  EditKind = "sync"  // PushWorkspaceSync
)

// RecentEdits are the last changes of files that were not made by commands.
type RecentEdits struct {
	Total  int          `json:"total"`
	Recent []RecentEdit `json:"recent"`
}

// RecentEdit is one of them.
type RecentEdit struct {
	Kind         EditKind  `json:"kind"`
	At           time.Time `json:"at"`
	Path         string    `json:"path"`                    // of the file; where a sync went; of a patch WorkspacePath
	Paths        []string  `json:"paths,omitempty"`         // of a patch, the first
	SourcePath   string    `json:"source_path,omitempty"`   // of a sync, on the host
	Files        int       `json:"files"`                   //
	Bytes        int64     `json:"bytes"`                   // of the files; of a patch 0
	LinesAdded   int       `json:"lines_added,omitempty"`   // by a patch
	LinesRemoved int       `json:"lines_removed,omitempty"` // by a patch
}

// ActivityChanges tells how /workspace differs from the baseline, with the first MaxRecentChanges paths and without a patch. The baseline stays what it is: after
// a reset to a snapshot, the snapshot's differences are among them.
type ActivityChanges struct {
	Available bool          `json:"available"`
	Reason    string        `json:"reason,omitempty"` // why not: the workspace has to run, for one
	Changed   bool          `json:"changed"`
	Summary   *DiffSummary  `json:"summary"` // null where it is not available
	Entries   []ChangedFile `json:"entries"`
	Cut       bool          `json:"entries_truncated"`
}

// RecentServices are the services that were started last.
type RecentServices struct {
	Total   int             `json:"total"`
	Running int             `json:"running"`
	Recent  []RecentService `json:"recent"`
}

// RecentService is a service, of which StatusService tells more.
type RecentService struct {
	ServiceName string       `json:"service_name"`
	State       ServiceState `json:"state"`
	StateReason string       `json:"state_reason,omitempty"`
	Command     string       `json:"command"` // as a shell would be told it, cut at MaxRecentLineSize
	StartedAt   time.Time    `json:"started_at"`
	EndedAt     *time.Time   `json:"ended_at"`
	ExitCode    *int         `json:"exit_code"`
}

// RecentShells are the shells that were opened last.
type RecentShells struct {
	Total  int           `json:"total"`
	Open   int           `json:"open"` // that are there now
	Recent []RecentShell `json:"recent"`
}

// RecentShell is a shell that was opened.
type RecentShell struct {
	ShellID  string     `json:"shell_id"`
	State    ShellState `json:"state"`
	Cwd      string     `json:"cwd"`
	OpenedAt time.Time  `json:"opened_at"`
}

// ShellClosed is the state of a shell that is not there any more: it was closed, or its machine ended.
const ShellClosed ShellState = "closed"

// RecentArtifacts are what was last taken out of a workspace.
type RecentArtifacts struct {
	Total   int            `json:"total"`
	Exports []RecentExport `json:"exports"`
}

// DiskArtifact is the export of a workspace's disks.
const DiskArtifact ArtifactType = workspace.ArtifactDisk

// RecentExport is one export.
type RecentExport struct {
	At           time.Time    `json:"at"`
	Path         string       `json:"path"`        // in the workspace; of its disks "/"
	OutputPath   string       `json:"output_path"` // on the host
	ArtifactType ArtifactType `json:"artifact_type"`
	Files        int          `json:"files"` // of its disks 0
	Bytes        int64        `json:"bytes"`
}

// SnapshotsActivity tells which snapshots were made and deleted.
type SnapshotsActivity struct {
	Named   int              `json:"named_count"`   // that are there, also from before a reset
	Created int              `json:"created_count"` // of them, since
	Deleted int              `json:"deleted_count"` // since
	Recent  []RecentSnapshot `json:"recent"`
}

// RecentSnapshot is the making, or the deleting, of a snapshot.
type RecentSnapshot struct {
	Action       string    `json:"action"` // created or deleted
	SnapshotName string    `json:"snapshot_name"`
	At           time.Time `json:"at"`
}

// SummarizeWorkspace tells what was done in a workspace since it was created or last reset, and how its files differ from the baseline. It need not run; what
// commands did to files is told by the difference, for which it has to.
func (p *Pyro) SummarizeWorkspace(ctx context.Context, id string) (*WorkspaceActivity, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	a, err := p.workspaces.Summarize(ctx, id, MaxRecentChanges)
	if err != nil {
		return nil, because(ctx, err)
	}
	w := newWorkspace(a.Workspace)
	r := &WorkspaceActivity{
		WorkspaceID: w.WorkspaceID, Name: w.Name, Labels: w.Labels, Environment: w.Environment, State: w.State, StateReason: w.StateReason,
		WorkspacePath: w.WorkspacePath, ExecutionMode: w.ExecutionMode, Isolation: w.Isolation, LastActivityAt: w.LastActivityAt, SessionStartedAt: a.Since,
		Commands: recentCommands(a.Work), Changes: activityChanges(a), Services: recentServices(w, a),
	}
	r.addEvents(a)
	r.Outcome = ActivityOutcome{
		CommandCount: r.Commands.Total, EditCount: r.Edits.Total, PatchCount: total(a.Work.Events, store.EventPatch), SyncCount: total(a.Work.Events, store.EventSync),
		ServiceCount: r.Services.Total, RunningCount: r.Services.Running, ShellCount: r.Shells.Total, ExportCount: r.Artifacts.Total,
		SnapshotCount: r.Snapshots.Named, ResetCount: w.ResetCount,
	}
	if n := len(r.Commands.Recent); n > 0 {
		r.Outcome.LastCommand = &r.Commands.Recent[n-1]
	}
	return r, nil
}
