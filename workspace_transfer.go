package pyro

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// newFileEntry returns the list entry of an object.
func newFileEntry(e *workspace.Entry, at string) FileEntry {
	return FileEntry{
		Path: listing.Escape(path.Join(at, e.Path)), ArtifactType: ArtifactType(e.Kind.String()), SizeBytes: e.Size, Mode: octal(e.Mode),
		UID: int(e.UID), GID: int(e.GID), ModifiedAt: time.Unix(0, e.ModTime).UTC(), LinkTarget: listing.Escape(e.Target),
	}
}

// octal returns the permission, set-id and sticky bits of a file as text. For the most common modes
// it returns constants, which saves allocations in long lists.
func octal(mode uint32) string {
	switch mode {
	case 0o644:
		return "0644"
	case 0o755:
		return "0755"
	case 0o777:
		return "0777"
	}
	return fmt.Sprintf("%04o", mode)
}

// text replaces invalid UTF-8 in a text, because JSON can't represent it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// PushWorkspaceSyncRequest contains the parameters of [Pyro.PushWorkspaceSync].
type PushWorkspaceSyncRequest struct {
	WorkspaceID    string       `json:"workspace_id"`
	SourcePath     string       `json:"source_path"`               // path on the host: a folder, a .tar, .tar.gz or .tgz archive, or another file.
	Dest           string       `json:"dest,omitempty"`            // target folder: absolute, or relative to /workspace; default WorkspacePath.
	IncludeIgnored bool         `json:"include_ignored,omitempty"` // as in CreateWorkspaceRequest
	Progress       ProgressFunc `json:"-"`
}

// WorkspaceSync describes a completed sync.
type WorkspaceSync struct {
	WorkspaceID string `json:"workspace_id"`
	SourcePath  string `json:"source_path"` // absolute
	Mode        string `json:"mode"`        // directory, archive or file
	Dest        string `json:"dest"`
	Files       int    `json:"files"`     // number of files in the source
	Unchanged   int    `json:"unchanged"` // number of these files that were not copied, because they were there.
	Directories int    `json:"directories"`
	Symlinks    int    `json:"symlinks"`
	Skipped     int    `json:"skipped"` // number of omitted devices, pipes and sockets.
	Ignored     int    `json:"ignored"` // number of omitted files and folders that git ignores; a folder counts as one.
	Bytes       int64  `json:"bytes"`   // total size of the files.
	Created     int64  `json:"created"` // number of entries that did not exist before
	Replaced    int64  `json:"replaced"`
	GitMissing  string `json:"git_missing,omitempty"` // as in WorkspaceSeed
}

// PushWorkspaceSync copies a folder, an archive or a file from the host into a running workspace.
// It replaces files with the same path and does not change other files. If possible, it leaves out
// files that the workspace already has, with the same content, mode and time. A push below
// /workspace happens completely or not at all. A push to another folder of the machine is not
// atomic. Like CreateWorkspace, it omits files that git ignores. It rejects archives that contain
// devices or paths outside of the target.
func (p *Pyro) PushWorkspaceSync(ctx context.Context, req PushWorkspaceSyncRequest) (*WorkspaceSync, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("source_path", req.SourcePath); err != nil {
		return nil, err
	}
	d, err := p.workspaces.Push(ctx, req.WorkspaceID, req.SourcePath, req.Dest, req.IncludeIgnored, req.Progress.adapt())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	s := d.Summary
	return &WorkspaceSync{
		req.WorkspaceID, d.Source, d.Mode, listing.Escape(d.Dest), s.Files, s.Unchanged, s.Directories, s.Symlinks, s.Skipped, s.Ignored, s.Bytes,
		d.Changed.Created, d.Changed.Replaced, s.GitMissing,
	}, nil
}

// ExportWorkspaceRequest contains the parameters of [Pyro.ExportWorkspace].
type ExportWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`              // file or folder below /workspace
	OutputPath  string `json:"output_path"`       // the target on the host
	Force       bool   `json:"force,omitempty"`   // replace an existing file, or write into an existing folder.
	Delete      bool   `json:"delete,omitempty"`  // if Force is set, also delete files that the exported folder does not have.
	DryRun      bool   `json:"dry_run,omitempty"` // if Delete is set, only return the paths that would be deleted.

	// IncludeGit also writes folders named .git into an existing folder. They contain hooks and
	// settings, which are commands that git runs on the host.
	IncludeGit bool `json:"include_git,omitempty"`

	Progress ProgressFunc `json:"-"`
}

// WorkspaceExport describes a completed export.
type WorkspaceExport struct {
	WorkspaceID  string       `json:"workspace_id"`
	Path         string       `json:"path"`
	OutputPath   string       `json:"output_path"` // absolute
	ArtifactType ArtifactType `json:"artifact_type"`
	Files        int          `json:"files"`
	Directories  int          `json:"directories"`
	Symlinks     int          `json:"symlinks"`
	Skipped      int          `json:"skipped"`       // number of omitted devices, pipes and sockets.
	OutwardLinks int          `json:"outward_links"` // number of symbolic links that lead out of the exported tree.
	Bytes        int64        `json:"bytes"`         // total size of the files.
	Created      int64        `json:"created"`       // entries that an existing folder did not have.
	Replaced     int64        `json:"replaced"`      // files and links of an existing folder that were replaced.
	LeftOut      int          `json:"left_out"`      // number of entries of .git that an existing folder did not get.
	Deleted      []string     `json:"deleted"`       // paths that were deleted, or would be, relative to OutputPath.
}

// ExportWorkspace copies a file or a folder from a running workspace to the host. It copies
// everything or nothing, even if the process is killed. It writes nothing outside of OutputPath,
// even if the machine is hostile, and follows no links. The copied files belong to the caller and
// have no set-id bits.
//
// In an existing folder, ExportWorkspace adds and replaces files, but leaves out .git. If Delete is
// set, it also deletes files, except .git and files that git ignores. If only one of the old and
// the new entry is a folder, the error has the kind Precondition.
func (p *Pyro) ExportWorkspace(ctx context.Context, req ExportWorkspaceRequest) (*WorkspaceExport, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"path": req.Path, "output_path": req.OutputPath} {
		if err := required(name, value); err != nil {
			return nil, err
		}
	}
	req.Progress.adapt().Phase("copying files", req.WorkspaceID)
	d, err := p.workspaces.Export(ctx, req.WorkspaceID, req.Path, req.OutputPath, workspace.ExportOptions{
		Force: req.Force, Delete: req.Delete, DryRun: req.DryRun, IncludeGit: req.IncludeGit,
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	s := d.Summary
	done := &WorkspaceExport{
		req.WorkspaceID, d.Path, d.Output, ArtifactType(d.Artifact), s.Files, s.Directories, s.Symlinks, s.Skipped, s.OutwardLinks, s.Bytes,
		d.Created, d.Replaced, d.Omitted, []string{},
	}
	for _, name := range d.Deleted {
		done.Deleted = append(done.Deleted, listing.Escape(name))
	}
	return done, nil
}
