package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Limits of a WorkspaceActivity.
const (
	MaxRecent         = store.MaxEvents // number of entries in each list of recent operations
	MaxRecentChanges  = 100             // number of changed paths
	MaxRecentLineSize = 1000            // size of a command line, in bytes
)

// WorkspaceActivity describes the work in a workspace since its creation or last reset.
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
	SessionStartedAt time.Time         `json:"session_started_at"` // time of the creation or last reset

	Outcome   ActivityOutcome   `json:"outcome"`
	Commands  RecentCommands    `json:"commands"`
	Edits     RecentEdits       `json:"edits"`
	Changes   ActivityChanges   `json:"changes"`
	Services  RecentServices    `json:"services"`
	Shells    RecentShells      `json:"shells"`
	Artifacts RecentArtifacts   `json:"artifacts"`
	Snapshots SnapshotsActivity `json:"snapshots"`
}

// ActivityOutcome counts operations since the creation or last reset of a workspace.
type ActivityOutcome struct {
	CommandCount  int            `json:"command_count"`
	LastCommand   *RecentCommand `json:"last_command"` // nil if there is none
	EditCount     int            `json:"edit_count"`   // file writes, patches and syncs
	PatchCount    int            `json:"patch_count"`  // part of EditCount
	SyncCount     int            `json:"sync_count"`   // part of EditCount
	ServiceCount  int            `json:"service_count"`
	RunningCount  int            `json:"running_service_count"`
	ShellCount    int            `json:"shell_count"` // shells that were opened
	ExportCount   int            `json:"export_count"`
	SnapshotCount int            `json:"snapshot_count"` // existing snapshots
	ResetCount    int            `json:"reset_count"`    // number of resets since the workspace was created
}

// RecentCommands are the last commands of a workspace.
type RecentCommands struct {
	Total  int             `json:"total"`
	Failed int             `json:"failed"` // commands that ended with an exit code other than 0
	Recent []RecentCommand `json:"recent"`
}

// RecentCommand is a command without its output. LogsWorkspace returns the output.
type RecentCommand struct {
	Sequence   int        `json:"sequence"`
	Command    string     `json:"command"` // as a shell command line, truncated to MaxRecentLineSize
	Cwd        string     `json:"cwd"`
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at"`  // nil if it still runs or if its machine ended before it
	ExitCode   *int       `json:"exit_code"` // nil if it still runs or if its end was not observed
	TimedOut   bool       `json:"timed_out"`
	DurationMS float64    `json:"duration_ms"`
}

// EditKind is the operation that changed files.
type EditKind string

// The kinds of edits.
const (
	EditWrite EditKind = "write" // WriteWorkspaceFile
	EditPatch EditKind = "patch" // ApplyWorkspacePatch
	EditSync  EditKind = "sync"  // PushWorkspaceSync
)

// RecentEdits are the last changes to files by operations other than commands.
type RecentEdits struct {
	Total  int          `json:"total"`
	Recent []RecentEdit `json:"recent"`
}

// RecentEdit is one change to files.
type RecentEdit struct {
	Kind         EditKind  `json:"kind"`
	At           time.Time `json:"at"`
	Path         string    `json:"path"`                  // the written file, the target of a sync, or WorkspacePath for a patch.
	Paths        []string  `json:"paths,omitempty"`       // the first paths of a patch.
	SourcePath   string    `json:"source_path,omitempty"` // the source of a sync, on the host
	Files        int       `json:"files"`
	Bytes        int64     `json:"bytes"`                   // total size of the files; 0 for a patch.
	LinesAdded   int       `json:"lines_added,omitempty"`   // by a patch
	LinesRemoved int       `json:"lines_removed,omitempty"` // by a patch
}

// ActivityChanges contains the differences between /workspace and its baseline. It contains at most
// the first MaxRecentChanges paths, and no patch. A reset to a snapshot does not change the
// baseline.
type ActivityChanges struct {
	Available bool          `json:"available"`
	Reason    string        `json:"reason,omitempty"` // why the changes are not available, for example because the workspace does not run
	Changed   bool          `json:"changed"`
	Summary   *DiffSummary  `json:"summary"` // nil if the changes are not available
	Entries   []ChangedFile `json:"entries"`
	Cut       bool          `json:"entries_truncated"`
}

// RecentServices are the services that were started last.
type RecentServices struct {
	Total   int             `json:"total"`
	Running int             `json:"running"`
	Recent  []RecentService `json:"recent"`
}

// RecentService describes a service. StatusService returns more details.
type RecentService struct {
	ServiceName string       `json:"service_name"`
	State       ServiceState `json:"state"`
	StateReason string       `json:"state_reason,omitempty"`
	Command     string       `json:"command"` // as a shell command line, truncated to MaxRecentLineSize
	StartedAt   time.Time    `json:"started_at"`
	EndedAt     *time.Time   `json:"ended_at"`
	ExitCode    *int         `json:"exit_code"`
}

// RecentShells are the shells that were opened last.
type RecentShells struct {
	Total  int           `json:"total"`
	Open   int           `json:"open"` // open shells
	Recent []RecentShell `json:"recent"`
}

// RecentShell is a shell that was opened.
type RecentShell struct {
	ShellID  string     `json:"shell_id"`
	State    ShellState `json:"state"`
	Cwd      string     `json:"cwd"`
	OpenedAt time.Time  `json:"opened_at"`
}

// ShellClosed is the state of a shell that was closed or whose machine ended.
const ShellClosed ShellState = "closed"

// RecentArtifacts are the last exports of a workspace.
type RecentArtifacts struct {
	Total   int            `json:"total"`
	Exports []RecentExport `json:"exports"`
}

// DiskArtifact is the type of an export of a workspace's disks.
const DiskArtifact ArtifactType = workspace.ArtifactDisk

// RecentExport is one export.
type RecentExport struct {
	At           time.Time    `json:"at"`
	Path         string       `json:"path"`        // path in the workspace; "/" for an export of the disks
	OutputPath   string       `json:"output_path"` // on the host
	ArtifactType ArtifactType `json:"artifact_type"`
	Files        int          `json:"files"` // 0 for an export of the disks
	Bytes        int64        `json:"bytes"`
}

// SnapshotsActivity lists the snapshots that were created and deleted.
type SnapshotsActivity struct {
	Named   int              `json:"named_count"`   // all existing snapshots, including snapshots from before the last reset.
	Created int              `json:"created_count"` // existing snapshots that were created since SessionStartedAt.
	Deleted int              `json:"deleted_count"` // snapshots that were deleted since SessionStartedAt.
	Recent  []RecentSnapshot `json:"recent"`
}

// RecentSnapshot is the creation or deletion of a snapshot.
type RecentSnapshot struct {
	Action       string    `json:"action"` // created or deleted
	SnapshotName string    `json:"snapshot_name"`
	At           time.Time `json:"at"`
}

// SummarizeWorkspace describes the work in a workspace since its creation or last reset. The
// summary includes the differences between the workspace's files and the baseline.
// SummarizeWorkspace also works if the workspace is stopped. The summary then lacks the differences
// from the baseline, and with them the changes that commands made.
func (p *Pyro) SummarizeWorkspace(ctx context.Context, id string) (*WorkspaceActivity, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	a, err := p.workspaces.Summarize(ctx, id, MaxRecentChanges)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	w := p.newWorkspace(a.Workspace)
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
