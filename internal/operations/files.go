package operations

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// files returns the operations on the files and disks of a workspace.
func files() []Operation {
	file := mcp.String("path", "in /workspace").Require()
	folder := mcp.String("path", "in /workspace").Default(pyro.WorkspacePath)
	const onDisk = "absolute, or relative to /workspace"
	return []Operation{
		operation("push_workspace_sync", "pyro workspace sync push", (*pyro.Pyro).PushWorkspaceSync).
			tool("workspace_sync_push", "Copy into a workspace", "Copy a folder, archive or file of the host into a workspace.", mcp.Replaces,
				argWorkspace, mcp.String("source_path", "on the host").Require(), mcp.String("dest", "").Default(pyro.WorkspacePath), argIncludeIgnored).core(),
		operation("pull_workspace_sync", "pyro workspace sync pull", (*pyro.Pyro).PullWorkspaceSync).
			tool("workspace_sync_pull", "Bring changes back", "Bring the changes of a workspace back into a folder of the host. Touch nothing else.", mcp.Replaces,
				argWorkspace, mcp.String("host_path", "folder of the host; default: the one the workspace was created from"),
				mcp.String("resolve", "what to do with files that the host has changed too; default: change nothing", "ours", "theirs", "merge"),
				mcp.Boolean("dry_run", "change nothing").Default(false), argIncludeIgnored, mcp.Boolean("git", "also fetch the commits as a branch").Default(false)),
		toolAdapts(operation("list_workspace_files", "pyro workspace file list", (*pyro.Pyro).ListWorkspaceFiles).remote(NeedsMachine).
			tool("workspace_file_list", "List files", "List files.", mcp.Reads, argWorkspace, folder, argRecursive, argIncludeGit, argFull).core(),
			func(list Function[pyro.ListWorkspaceFilesRequest, *pyro.WorkspaceFiles]) Function[fileListRequest, *fileList] {
				return func(p *pyro.Pyro, ctx context.Context, req fileListRequest) (*fileList, error) {
					found, err := list(p, ctx, req.ListWorkspaceFilesRequest)
					return newFileList(found, req.Full), err
				}
			}),
		operation("read_workspace_file", "pyro workspace file read", (*pyro.Pyro).ReadWorkspaceFile).
			tool("workspace_file_read", "Read a file", "Read a text file.", mcp.Reads, argWorkspace, file, argMaxBytes).core().remote(NeedsMachine),
		operation("write_workspace_file", "pyro workspace file write", (*pyro.Pyro).WriteWorkspaceFile).
			tool("workspace_file_write", "Write a file", "Write a text file; create missing folders.", mcp.Replaces,
				argWorkspace, file, mcp.String("text", "the whole content").Require().Alias("content")).core().remote(NeedsMachine),
		operation("apply_workspace_patch", "pyro workspace patch apply", (*pyro.Pyro).ApplyWorkspacePatch).
			tool("workspace_patch_apply", "Apply a patch", "Apply a unified diff, completely or not at all.", mcp.Changes,
				argWorkspace, mcp.String("patch", "as git diff prints it").Require()).core().remote(NeedsMachine),
		operation("diff_workspace", "pyro workspace diff", (*pyro.Pyro).DiffWorkspace).
			tool("workspace_diff", "Show changes", "Show the differences from the baseline.", mcp.Reads, argWorkspace,
				mcp.Strings("paths", "in /workspace; default: all"), mcp.Boolean("include_ignored", "include files that .gitignore names, and __pycache__").Default(false),
				mcp.Boolean("stat", "without the patch").Default(false)).core().remote(NeedsMachine),
		toolCalls(operation("export_workspace", "pyro workspace export", (*pyro.Pyro).ExportWorkspace).
			tool("workspace_export", "Copy to the host", "Copy a file or folder out of a workspace to the host.", mcp.Replaces,
				argWorkspace, file, argOutputPath, mcp.Boolean("overwrite", "replace an existing file, or add to an existing folder and replace its files").Default(false)).core(),
			exportForAgent),
		operation("copy_to_workspace", "pyro workspace cp", (*pyro.Pyro).CopyToWorkspace),
		operation("copy_from_workspace", "pyro workspace cp", (*pyro.Pyro).CopyFromWorkspace),
		operation("export_workspace_disk", "pyro workspace disk export", (*pyro.Pyro).ExportWorkspaceDisk).
			tool("workspace_disk_export", "Export a disk", "Copy the disk of a stopped workspace to the host, as a raw ext4 image.", mcp.Adds, argWorkspace, argOutputPath),
		toolAdapts(operation("list_workspace_disk", "pyro workspace disk list", (*pyro.Pyro).ListWorkspaceDisk).remote(NeedsRecords).
			tool("workspace_disk_list", "List files of a disk", "List files of a stopped workspace.", mcp.Reads,
				argWorkspace, mcp.String("path", onDisk).Default(pyro.WorkspacePath), argRecursive, argIncludeGit, argFull),
			func(list Function[pyro.ListWorkspaceDiskRequest, *pyro.WorkspaceFiles]) Function[diskListRequest, *fileList] {
				return func(p *pyro.Pyro, ctx context.Context, req diskListRequest) (*fileList, error) {
					found, err := list(p, ctx, req.ListWorkspaceDiskRequest)
					return newFileList(found, req.Full), err
				}
			}),
		operation("read_workspace_disk", "pyro workspace disk read", (*pyro.Pyro).ReadWorkspaceDisk).
			tool("workspace_disk_read", "Read a file of a disk", "Read a text file of a stopped workspace.", mcp.Reads, argWorkspace, mcp.String("path", onDisk).Require(), argMaxBytes).remote(NeedsRecords),
	}
}

// exportRequest is an export request with the field Overwrite, which is the tool's name for Force.
type exportRequest struct {
	pyro.ExportWorkspaceRequest
	Overwrite bool `json:"overwrite"`
}

// exportForAgent exports a file or folder. If an agent exports all of /workspace over the folder
// that the workspace was created from, it brings back only the changes of the workspace. The folder
// can have changed too.
func exportForAgent(p *pyro.Pyro, ctx context.Context, req exportRequest) (*pyro.WorkspaceExport, error) {
	req.Force = req.Overwrite
	if !req.Overwrite || path.Join(pyro.WorkspacePath, strings.TrimPrefix(req.Path, pyro.WorkspacePath)) != pyro.WorkspacePath {
		return p.ExportWorkspace(ctx, req.ExportWorkspaceRequest)
	}
	w, err := p.StatusWorkspace(ctx, req.WorkspaceID)
	if err != nil {
		return nil, err
	}
	output, err := filepath.Abs(req.OutputPath)
	if err != nil {
		return nil, err
	}
	if seed := w.WorkspaceSeed; seed.Mode != "directory" || seed.SeedPath != output {
		return p.ExportWorkspace(ctx, req.ExportWorkspaceRequest)
	}
	done, err := p.PullWorkspaceSync(ctx, pyro.PullWorkspaceSyncRequest{WorkspaceID: req.WorkspaceID, HostPath: output})
	if err != nil {
		return nil, err
	}
	export := &pyro.WorkspaceExport{
		WorkspaceID: done.WorkspaceID, Path: pyro.WorkspacePath, OutputPath: done.HostPath, ArtifactType: "directory",
		Created: done.Created, Replaced: done.Replaced, Deleted: []string{},
	}
	for _, e := range done.Entries {
		switch {
		case e.Result != "applied":
		case e.Status == "deleted":
			export.Deleted = append(export.Deleted, e.Path)
		case e.Kind == "file":
			export.Files++
		case e.Kind == "symlink":
			export.Symlinks++
		case e.Kind == "directory":
			export.Directories++
		}
	}
	return export, nil
}
