package pyro

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// ListWorkspaceDiskRequest contains the parameters of [Pyro.ListWorkspaceDisk].
type ListWorkspaceDiskRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path,omitempty"` // absolute, or relative to /workspace; default /workspace
	Recursive   bool   `json:"recursive,omitempty"`
	IncludeGit  bool   `json:"include_git,omitempty"` // as in ListWorkspaceFilesRequest

	Each func(list *WorkspaceFiles, e FileEntry) error `json:"-"` // as in ListWorkspaceFilesRequest
}

// ListWorkspaceDisk lists files on the disks of a stopped workspace, without starting the
// workspace. The path refers to the root file system of the workspace, with the workspace's files
// at /workspace.
func (p *Pyro) ListWorkspaceDisk(ctx context.Context, req ListWorkspaceDiskRequest) (*WorkspaceFiles, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	r := &WorkspaceFiles{WorkspaceID: req.WorkspaceID, Recursive: req.Recursive, Entries: []FileEntry{}}
	err := p.workspaces.ListDisk(ctx, req.WorkspaceID, req.Path, req.Recursive, func(path string, info fs.FileInfo, target string) error {
		entry := newDiskEntry(path, info, target)
		if r.Path == "" {
			r.Path, r.ArtifactType = entry.Path, entry.ArtifactType
			if info.IsDir() {
				return nil
			}
		}
		if r.leaveOut(strings.TrimPrefix(entry.Path, r.Path), req.IncludeGit) {
			return nil
		}
		more, err := r.add(entry, req.Each)
		if err == nil && !more {
			err = fs.SkipAll
		}
		return err
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return r, nil
}

// newDiskEntry returns the list entry of an object on a disk.
func newDiskEntry(path string, info fs.FileInfo, target string) FileEntry {
	e := FileEntry{Path: listing.Escape(path), ArtifactType: OtherArtifact, ModifiedAt: info.ModTime().UTC(), LinkTarget: listing.Escape(target)}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.ArtifactType, e.SizeBytes = FileArtifact, info.Size()
	case mode.IsDir():
		e.ArtifactType = DirectoryArtifact
	case mode&fs.ModeSymlink != 0:
		e.ArtifactType = SymlinkArtifact
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.Mode, e.UID, e.GID = octal(st.Mode&0o7777), int(st.Uid), int(st.Gid)
	}
	return e
}

// ReadWorkspaceDiskRequest contains the parameters of [Pyro.ReadWorkspaceDisk].
type ReadWorkspaceDiskRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`                // absolute, or relative to /workspace
	MaxBytes    int    `json:"max_bytes,omitempty"` // as in ReadWorkspaceFileRequest
}

// ReadWorkspaceDisk reads a text file from the disks of a stopped workspace, without starting the
// workspace. It does not follow symbolic links.
func (p *Pyro) ReadWorkspaceDisk(ctx context.Context, req ReadWorkspaceDiskRequest) (*FileContent, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("path", req.Path); err != nil {
		return nil, err
	}
	if err := completeNumber("max_bytes", &req.MaxBytes, DefaultMaxBytes, 1, MaxReadBytes); err != nil {
		return nil, err
	}
	t, path, err := p.workspaces.ReadDisk(ctx, req.WorkspaceID, req.Path, req.MaxBytes)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &FileContent{req.WorkspaceID, listing.Escape(path), string(t.Content), t.Size, req.MaxBytes, t.Truncated}, nil
}

// ExportWorkspaceDiskRequest contains the parameters of [Pyro.ExportWorkspaceDisk].
type ExportWorkspaceDiskRequest struct {
	WorkspaceID string       `json:"workspace_id"`
	OutputPath  string       `json:"output_path"`     // path on the host
	Force       bool         `json:"force,omitempty"` // replace an existing file
	Progress    ProgressFunc `json:"-"`
}

// WorkspaceDiskExport describes the image that was written.
type WorkspaceDiskExport struct {
	WorkspaceID    string `json:"workspace_id"`
	OutputPath     string `json:"output_path"` // absolute
	DiskFormat     string `json:"disk_format"` // ext4: a raw image of an ext4 file system
	SizeBytes      int64  `json:"size_bytes"`
	AllocatedBytes int64  `json:"allocated_bytes"` // size of the blocks that the sparse file occupies on the host
}

// ExportWorkspaceDisk copies the disks of a stopped workspace to a single raw ext4 image. The image
// contains the workspace's files at /workspace.
func (p *Pyro) ExportWorkspaceDisk(ctx context.Context, req ExportWorkspaceDiskRequest) (*WorkspaceDiskExport, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("output_path", req.OutputPath); err != nil {
		return nil, err
	}
	image, err := p.workspaces.ExportDisk(ctx, req.WorkspaceID, req.OutputPath, req.Force, req.Progress.adapt())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &WorkspaceDiskExport{req.WorkspaceID, image.Path, "ext4", image.Size, image.Allocated}, nil
}
