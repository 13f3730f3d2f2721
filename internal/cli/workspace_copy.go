package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceCopy() *cobra.Command {
	var to pyro.CopyToWorkspaceRequest
	var owner string
	cmd := onWorkspace("cp SOURCE DEST", "Copy files between this host and a running workspace",
		`Copy a file or a folder to any path of a workspace, or from it. One of SOURCE and DEST is ID:PATH;
begin a path of this host with ./ if it has a colon. PATH is absolute, or relative to /workspace.
The machine needs no shell and no tar.

If DEST is a folder, the copy is made in it. If DEST does not exist, it is the name of the copy. A
SOURCE that ends with /. means the content of the folder. Folders are merged, and files are
replaced. A - instead of the path of this host is a tar stream on standard input or output.

Files in the workspace belong to root, unless --archive or --owner says otherwise. Files on this
host belong to you and have no setuid or setgid bits.`,
		`  pyro workspace cp ./nginx.conf ws-0123456789ab:/etc/nginx/
  pyro workspace cp ws-0123456789ab:/var/log ./logs
  tar -c src | pyro workspace cp - ws-0123456789ab:/srv`,
		func(cmd *cobra.Command, args []string) (err error) {
			fromID, from, isFrom := workspacePath(args[0])
			toID, dest, isTo := workspacePath(args[1])
			switch {
			case isFrom == isTo:
				return usage(cmd, "one of SOURCE and DEST must be ID:PATH, and the other one a path of this host or -")
			case isFrom && anyChanged(cmd, "archive", "owner", "follow-link"):
				return usage(cmd, "--archive, --owner and --follow-link need a DEST in the workspace")
			case isFrom:
				return copyFrom(cmd, pyro.CopyFromWorkspaceRequest{WorkspaceID: fromID, Path: from, OutputPath: args[1]})
			}
			if to.UID, to.GID, err = parseOwner(cmd, owner); err != nil {
				return err
			}
			to.WorkspaceID, to.SourcePath, to.Dest = toID, args[0], dest
			return copyTo(cmd, to)
		})
	cmd.ValidArgsFunction = nil
	cmd.Flags().BoolVarP(&to.KeepOwners, "archive", "a", false, "keep the owners of the files, or of the tar stream")
	cmd.Flags().StringVar(&owner, "owner", "0:0", "`UID:GID` of the files in the workspace")
	cmd.Flags().BoolVarP(&to.FollowLink, "follow-link", "L", false, "if SOURCE is a symbolic link, copy its target")
	cmd.MarkFlagsMutuallyExclusive("archive", "owner")
	return cmd
}

// workspacePath splits ID:PATH. As in docker cp, an argument is a path of the host if it begins
// with a slash or a dot, or has no colon.
func workspacePath(arg string) (id, path string, ok bool) {
	if strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
		return "", "", false
	}
	id, path, ok = strings.Cut(arg, ":")
	return id, path, ok && id != ""
}

func anyChanged(cmd *cobra.Command, names ...string) bool {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// parseOwner parses UID:GID.
func parseOwner(cmd *cobra.Command, text string) (uid, gid int, err error) {
	user, group, ok := strings.Cut(text, ":")
	u, err1 := strconv.ParseUint(user, 10, 32)
	g, err2 := strconv.ParseUint(group, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, usage(cmd, "--owner is %q: it must be UID:GID", text)
	}
	return int(u), int(g), nil
}

func copyTo(cmd *cobra.Command, req pyro.CopyToWorkspaceRequest) error {
	if req.SourcePath == "-" {
		req.SourcePath, req.Archive = "", os.Stdin
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceCopy, error) {
		req.Progress = report
		return p.CopyToWorkspace(ctx, req)
	}, func(c *pyro.WorkspaceCopy) error {
		if c.Lost > 0 {
			fmt.Fprintf(os.Stderr, "pyro: warning: %d owners and extended attributes are lost, because the file system there does not accept them\n", c.Lost)
		}
		return showCopy(os.Stdout, c)
	})
}

func copyFrom(cmd *cobra.Command, req pyro.CopyFromWorkspaceRequest) error {
	shown := io.Writer(os.Stdout)
	if req.OutputPath == "-" {
		if wantsJSON(cmd) {
			return usage(cmd, "--json and - both need standard output")
		}
		req.OutputPath, req.Output, shown = "", os.Stdout, os.Stderr
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceCopy, error) {
		req.Progress = report
		return p.CopyFromWorkspace(ctx, req)
	}, func(c *pyro.WorkspaceCopy) error {
		if c.OutwardLinks > 0 {
			fmt.Fprintf(os.Stderr, "pyro: warning: %d symbolic links point out of the copy, to files of this host\n", c.OutwardLinks)
		}
		return showCopy(shown, c)
	})
}

func showCopy(to io.Writer, c *pyro.WorkspaceCopy) error {
	content := count(c.Files, "file")
	if c.Dest == "-" {
		content = "a tar stream"
	}
	left := ""
	if c.Skipped > 0 {
		left = fmt.Sprintf("; %d devices, pipes and sockets left out", c.Skipped)
	}
	_, err := fmt.Fprintf(to, "copied %s to %s: %s, %s%s\n", quoted(c.Source), quoted(c.Dest), content, size(c.Bytes), left)
	return err
}
