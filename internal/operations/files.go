package operations

import (
	"context"

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
			tool("workspace_sync_push", "Copy into a workspace", "Copy a folder or archive of the host into a workspace.", mcp.Replaces,
				argWorkspace, mcp.String("source_path", "on the host").Require(), mcp.String("dest", "").Default(pyro.WorkspacePath), argIncludeIgnored).core(),
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
				argWorkspace, file, argOutputPath, mcp.Boolean("overwrite", "replace an existing file, or a folder with its contents").Default(false)).core(),
			func(p *pyro.Pyro, ctx context.Context, req exportRequest) (*pyro.WorkspaceExport, error) {
				req.Force = req.Overwrite
				return p.ExportWorkspace(ctx, req.ExportWorkspaceRequest)
			}),
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
