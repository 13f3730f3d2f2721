package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/pull"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// PullWorkspaceSyncRequest contains the parameters of [Pyro.PullWorkspaceSync].
type PullWorkspaceSyncRequest struct {
	WorkspaceID    string       `json:"workspace_id"`
	HostPath       string       `json:"host_path,omitempty"`       // a folder of the host; default: the folder that the workspace was created from.
	Resolve        Resolve      `json:"resolve,omitempty"`         // what to do with conflicts; default: change nothing.
	DryRun         bool         `json:"dry_run,omitempty"`         // change nothing, and return what would be changed.
	IncludeIgnored bool         `json:"include_ignored,omitempty"` // also bring back new files that the .gitignore files of the workspace ignore.
	Git            bool         `json:"git,omitempty"`             // also fetch the commits of the workspace, as the branch pyro/WORKSPACE_ID.
	Progress       ProgressFunc `json:"-"`
}

// Resolve controls the handling of conflicts: entries that both the workspace and the host have
// changed.
type Resolve = pull.Resolution

// The values of Resolve. The empty value means that conflicts are an error.
const (
	ResolveOurs   = pull.Ours   // keep the entry of the host.
	ResolveTheirs = pull.Theirs // take the entry of the workspace.
	ResolveMerge  = pull.Merge  // merge the lines of text files, as git does, with markers around conflicts.
)

// WorkspacePull describes a pull.
type WorkspacePull struct {
	WorkspaceID string         `json:"workspace_id"`
	HostPath    string         `json:"host_path"` // absolute
	DryRun      bool           `json:"dry_run"`
	Changed     bool           `json:"changed"`   // the host was changed, or would be.
	Conflicts   int            `json:"conflicts"` // only in a dry run: changes that need Resolve.
	Entries     []PulledChange `json:"entries"`   // the changes of the workspace, sorted by path.
	Ignored     int            `json:"ignored"`   // changes that were left out, because a .gitignore ignores them.
	Created     int64          `json:"created"`   // files, folders and links on the host.
	Replaced    int64          `json:"replaced"`
	Deleted     int64          `json:"deleted"`
	Branch      string         `json:"branch,omitempty"` // the branch with the commits of the workspace.
}

// PulledChange is one change of a workspace, with its effect on the host.
type PulledChange = pull.Change

// PullWorkspaceSync brings the changes of a running workspace back into a folder of the host: what
// was added, modified or deleted since the baseline. Everything else in the folder stays unchanged,
// including all folders named .git. A pull happens completely or not at all, even if the process is
// killed. While a file is replaced, its path always has the old or the new file.
//
// A change is a conflict if the host no longer has the entry of the baseline, unless it already has
// the entry of the workspace. Without Resolve, conflicts are an error of kind Precondition that
// lists them, and nothing is changed.
func (p *Pyro) PullWorkspaceSync(ctx context.Context, req PullWorkspaceSyncRequest) (*WorkspacePull, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	switch req.Resolve {
	case pull.Refuse, ResolveOurs, ResolveTheirs, ResolveMerge:
	default:
		return nil, fault.New(fault.Invalid, "pull from workspace", req.WorkspaceID, `resolve is %q, and must be "ours", "theirs" or "merge"`, req.Resolve)
	}
	d, err := p.workspaces.Pull(ctx, req.WorkspaceID, workspace.PullOptions{
		Folder: req.HostPath, Resolve: req.Resolve, DryRun: req.DryRun, IncludeIgnored: req.IncludeIgnored, Git: req.Git, Progress: req.Progress.adapt(),
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	done := &WorkspacePull{
		WorkspaceID: req.WorkspaceID, HostPath: d.Folder, DryRun: req.DryRun, Entries: d.Changes, Ignored: d.Ignored, Branch: d.Branch,
		Created: d.Counts.Created, Replaced: d.Counts.Replaced, Deleted: d.Counts.Deleted,
	}
	for i := range done.Entries {
		e := &done.Entries[i]
		e.Path = listing.Escape(e.Path)
		switch e.Result {
		case pull.Conflicted:
			done.Conflicts++
		case pull.Applied, pull.Merged, pull.Marked:
			done.Changed = true
		}
	}
	return done, nil
}
