package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceDisk() *cobra.Command {
	return subgroup("disk", "Read the disk of a stopped workspace without starting it", newDiskExport(), newDiskList(), newDiskRead())
}

func newDiskExport() *cobra.Command {
	var req pyro.ExportWorkspaceDiskRequest
	cmd := onWorkspace("export ID", "Copy the disk of a stopped workspace to a raw ext4 image",
		"Copy the root of a stopped workspace, including /workspace, to a raw, sparse ext4 image.",
		"  pyro workspace disk export ws-0123456789ab --output disk.ext4",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID = args[0]
			if req.OutputPath == "" {
				return usage(cmd, "--output is missing")
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceDiskExport, error) {
				req.Progress = report
				return p.ExportWorkspaceDisk(ctx, req)
			}, func(e *pyro.WorkspaceDiskExport) error {
				_, err := fmt.Printf("exported the disk to %s: %s, %s allocated\n", quoted(e.OutputPath), size(e.SizeBytes), size(e.AllocatedBytes))
				return err
			})
		})
	cmd.Flags().StringVar(&req.OutputPath, "output", "", "`PATH` of the new file on this host")
	cmd.Flags().BoolVar(&req.Force, "force", false, "replace an existing target")
	return cmd
}

func newDiskList() *cobra.Command {
	req, list := pyro.ListWorkspaceDiskRequest{}, &fileList{}
	cmd := onWorkspace("list ID [PATH]", "List files on the disk of a stopped workspace",
		"List files on the disk of a stopped workspace. PATH is a path of its root, by default /workspace.",
		"  pyro workspace disk list ws-0123456789ab /etc",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID = args[0]
			if len(args) > 1 {
				req.Path = args[1]
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceFiles, error) {
				req.Each = list.each(cmd)
				return p.ListWorkspaceDisk(ctx, req)
			}, list.end)
		})
	cmd.Flags().BoolVarP(&req.Recursive, "recursive", "r", false, "also list all folders below PATH, except .git")
	cmd.Flags().BoolVar(&req.IncludeGit, "include-git", false, "with --recursive: also list .git")
	return cmd
}

func newDiskRead() *cobra.Command {
	var req pyro.ReadWorkspaceDiskRequest
	cmd := onWorkspace("read ID PATH", "Print a text file on the disk of a stopped workspace", "",
		"  pyro workspace disk read ws-0123456789ab /etc/os-release",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID, req.Path = args[0], args[1]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.FileContent, error) {
				return p.ReadWorkspaceDisk(ctx, req)
			}, func(f *pyro.FileContent) error { return showContent("workspace-disk-read", f) })
		})
	cmd.Flags().Var(positive(&req.MaxBytes, pyro.DefaultMaxBytes), "max-bytes", "largest number of bytes to read")
	return cmd
}
