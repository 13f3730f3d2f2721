package pyro

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// CopyToWorkspaceRequest contains the parameters of [Pyro.CopyToWorkspace].
type CopyToWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	SourcePath  string `json:"source_path"`           // a file or a folder of the host; "/." at the end means the content of the folder.
	Dest        string `json:"dest"`                  // any path in the machine: absolute, or relative to /workspace.
	KeepOwners  bool   `json:"keep_owners,omitempty"` // keep the owners of the host, or of Archive.
	UID         int    `json:"uid,omitempty"`         // the owner of the copied files without KeepOwners; default root.
	GID         int    `json:"gid,omitempty"`
	FollowLink  bool   `json:"follow_link,omitempty"` // if SourcePath is a symbolic link, copy its target.

	Archive  io.Reader    `json:"-"` // a tar stream to unpack in the folder Dest, instead of SourcePath.
	Progress ProgressFunc `json:"-"`
}

// CopyFromWorkspaceRequest contains the parameters of [Pyro.CopyFromWorkspace].
type CopyFromWorkspaceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`        // any path in the machine: absolute, or relative to /workspace; "/." at the end means the content of the folder.
	OutputPath  string `json:"output_path"` // the target on the host.

	Output   io.Writer    `json:"-"` // receives a tar stream with owners and extended attributes, instead of OutputPath.
	Progress ProgressFunc `json:"-"`
}

// WorkspaceCopy describes a completed copy.
type WorkspaceCopy struct {
	WorkspaceID  string `json:"workspace_id"`
	Source       string `json:"source"` // absolute; "-" for a stream.
	Dest         string `json:"dest"`
	Files        int    `json:"files"` // the numbers are 0 if the copy is a stream from the workspace.
	Directories  int    `json:"directories"`
	Links        int    `json:"links"`           // symbolic and hard links.
	Skipped      int    `json:"skipped"`         // devices, pipes and sockets that were left out.
	OutwardLinks int    `json:"outward_links"`   // copies to the host: symbolic links that may lead out of the copy.
	Lost         int    `json:"attributes_lost"` // owners and extended attributes that the file system in the machine does not accept.
	Bytes        int64  `json:"bytes"`           // total size of the files, or of the stream.
}

// CopyToWorkspace copies a file or a folder of the host to any path of a running workspace. If Dest
// is an existing folder, the copy is made in it, with the name of the source. Otherwise Dest is the
// name of the copy. Missing folders are created, existing folders are merged, and existing files
// are replaced. Links to folders are followed within the machine.
//
// A file gets its name only when it is complete, but the copy as a whole is not atomic. When the
// call returns, the files are on the machine's disk. The machine needs no shell and no tar. Under
// host_compat, paths outside of /workspace have an error of kind Permission.
func (p *Pyro) CopyToWorkspace(ctx context.Context, req CopyToWorkspaceRequest) (*WorkspaceCopy, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if req.Archive == nil {
		if err := required("source_path", req.SourcePath); err != nil {
			return nil, err
		}
	}
	if err := required("dest", req.Dest); err != nil {
		return nil, err
	}
	if req.KeepOwners && (req.UID != 0 || req.GID != 0) {
		return nil, invalid("keep_owners can't be used with uid and gid")
	}
	if req.UID < 0 || req.GID < 0 || max(req.UID, req.GID) > maxOwner {
		return nil, invalid("uid and gid must be 0 to %d", maxOwner)
	}
	d, err := p.workspaces.CopyIn(ctx, req.WorkspaceID, req.SourcePath, req.Dest, workspace.CopyInOptions{
		Stream: req.Archive, KeepOwners: req.KeepOwners, UID: req.UID, GID: req.GID, Follow: req.FollowLink, Progress: req.Progress.adapt(),
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return newWorkspaceCopy(req.WorkspaceID, d), nil
}

// maxOwner is the largest number of a user or a group.
const maxOwner = 1<<32 - 2

// CopyFromWorkspace copies a file or a folder from any path of a running workspace to the host. If
// OutputPath is an existing folder, the copy is made in it, with the name of the source. Otherwise
// OutputPath is the name of the copy. Existing folders are merged, and existing files are replaced.
//
// Nothing outside of OutputPath is written, even if the machine is hostile. The copied files belong
// to the caller and have no set-id bits. Unlike ExportWorkspace, the call accepts any path of the
// machine. Under host_compat, paths outside of /workspace have an error of kind Permission.
func (p *Pyro) CopyFromWorkspace(ctx context.Context, req CopyFromWorkspaceRequest) (*WorkspaceCopy, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("path", req.Path); err != nil {
		return nil, err
	}
	if req.Output == nil {
		if err := required("output_path", req.OutputPath); err != nil {
			return nil, err
		}
	}
	d, err := p.workspaces.CopyOut(ctx, req.WorkspaceID, req.Path, req.OutputPath, workspace.CopyOutOptions{Stream: req.Output, Progress: req.Progress.adapt()})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return newWorkspaceCopy(req.WorkspaceID, d), nil
}

func newWorkspaceCopy(id string, d workspace.Copied) *WorkspaceCopy {
	stream := func(path string) string {
		if path == "" {
			return "-"
		}
		return listing.Escape(path)
	}
	return &WorkspaceCopy{
		id, stream(d.Source), stream(d.Dest), d.Files, d.Directories, d.Symlinks + d.HardLinks, d.Skipped, d.OutwardLinks, d.Lost, d.Bytes,
	}
}
