package pyro

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// newFileEntry is an entry of a list of what is at a path.
func newFileEntry(e *listing.Entry, at string) FileEntry {
	return FileEntry{
		Path: text(path.Join(at, e.Path)), ArtifactType: artifact(e.Kind), SizeBytes: e.Size, Mode: octal(e.Mode),
		UID: int(e.UID), GID: int(e.GID), ModifiedAt: time.Unix(0, e.ModTime).UTC(), LinkTarget: text(e.Target),
	}
}

// octal writes the permission, set-id and sticky bits of a file. There are few that are in use, and lists are long.
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

// text is a name as JSON can carry it: what is not UTF-8 in it is replaced.
func text(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

func artifact(k listing.Kind) ArtifactType {
	switch k {
	case listing.File:
		return FileArtifact
	case listing.Folder:
		return DirectoryArtifact
	case listing.Link:
		return SymlinkArtifact
	}
	return OtherArtifact
}

// PushWorkspaceSyncRequest says what to bring into a workspace.
type PushWorkspaceSyncRequest struct {
	WorkspaceID    string       `json:"workspace_id"`
	SourcePath     string       `json:"source_path"`               // a folder of the host, or a .tar, .tar.gz or .tgz archive
	Dest           string       `json:"dest,omitempty"`            // below /workspace; default WorkspacePath
	IncludeIgnored bool         `json:"include_ignored,omitempty"` // as for CreateWorkspace
	Progress       ProgressFunc `json:"-"`
}

// WorkspaceSync tells what was brought.
type WorkspaceSync struct {
	WorkspaceID string `json:"workspace_id"`
	SourcePath  string `json:"source_path"` // absolute
	Mode        string `json:"mode"`        // directory or archive
	Dest        string `json:"dest"`
	Files       int    `json:"files"`
	Directories int    `json:"directories"`
	Symlinks    int    `json:"symlinks"`
	Skipped     int    `json:"skipped"` // devices, pipes and sockets of a folder, which are left out
	Ignored     int    `json:"ignored"` // files and folders that git ignores, which are left out; a folder counts as one
	Bytes       int64  `json:"bytes"`   // of all files
	Created     int64  `json:"created"` // of what was brought, what had not been there
	Replaced    int64  `json:"replaced"`
}

// PushWorkspaceSync brings a folder or an archive of the host into a workspace that runs: all of it or nothing. What is there stays, but for what has the same
// path. What git ignores in a folder is left out, as by CreateWorkspace. An archive that leads out of where it belongs, or holds devices, is refused.
func (p *Pyro) PushWorkspaceSync(ctx context.Context, req PushWorkspaceSyncRequest) (*WorkspaceSync, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("source_path", req.SourcePath); err != nil {
		return nil, err
	}
	d, err := p.workspaces.Push(ctx, req.WorkspaceID, req.SourcePath, req.Dest, req.IncludeIgnored, req.Progress.adapt())
	if err != nil {
		return nil, because(ctx, err)
	}
	s := d.Summary
	return &WorkspaceSync{
		req.WorkspaceID, d.Source, d.Mode, d.Dest, s.Files, s.Directories, s.Symlinks, s.Skipped, s.Ignored, s.Bytes, d.Changed.Created, d.Changed.Replaced,
	}, nil
}

// ExportWorkspaceRequest says what to take out of a workspace.
type ExportWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`            // below /workspace
	OutputPath  string `json:"output_path"`     // on the host: what it becomes
	Force       bool   `json:"force,omitempty"` // replace what is there
}

// WorkspaceExport tells what was taken out.
type WorkspaceExport struct {
	WorkspaceID  string       `json:"workspace_id"`
	Path         string       `json:"path"`
	OutputPath   string       `json:"output_path"` // absolute
	ArtifactType ArtifactType `json:"artifact_type"`
	Files        int          `json:"files"`
	Directories  int          `json:"directories"`
	Symlinks     int          `json:"symlinks"`
	Skipped      int          `json:"skipped"`       // devices, pipes and sockets, which are left out
	OutwardLinks int          `json:"outward_links"` // of the symbolic links, those that lead out of what was exported: whoever follows them is on the host
	Bytes        int64        `json:"bytes"`         // of all files
}

// ExportWorkspace takes a file or a folder out of a workspace that runs: all of it or nothing, and nothing outside of OutputPath, whatever the machine made. It
// belongs to the caller; set-id bits are dropped.
func (p *Pyro) ExportWorkspace(ctx context.Context, req ExportWorkspaceRequest) (*WorkspaceExport, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"path": req.Path, "output_path": req.OutputPath} {
		if err := required(name, value); err != nil {
			return nil, err
		}
	}
	d, err := p.workspaces.Export(ctx, req.WorkspaceID, req.Path, req.OutputPath, req.Force)
	if err != nil {
		return nil, because(ctx, err)
	}
	s := d.Summary
	return &WorkspaceExport{
		req.WorkspaceID, d.Path, d.Output, artifact(d.Kind), s.Files, s.Directories, s.Symlinks, s.Skipped, s.OutwardLinks, s.Bytes,
	}, nil
}
