package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceSync() *cobra.Command {
	return subgroup("sync", "Copy files into a workspace, and changes back", newSyncPush(), newSyncPull())
}

func newSyncPush() *cobra.Command {
	var req pyro.PushWorkspaceSyncRequest
	cmd := onWorkspace("push ID SOURCE", "Copy a folder, an archive or a file into a running workspace",
		`Copy a folder, a .tar, .tar.gz or .tgz archive, or another file into a workspace. Files with the
same path are replaced, and other files stay. If possible, pyro copies only files that the workspace
does not have yet. In /workspace, it copies all of them or none. As in workspace create, files that
git ignores are left out, unless git ignores the whole folder.`,
		"  pyro workspace sync push ws-0123456789ab ./src --dest src",
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID, req.SourcePath = args[0], args[1]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceSync, error) {
				req.Progress = report
				return p.PushWorkspaceSync(ctx, req)
			}, func(s *pyro.WorkspaceSync) error {
				files, left := count(s.Files, "file"), ""
				if s.Unchanged > 0 {
					files = fmt.Sprintf("%d of %s", s.Files-s.Unchanged, files)
				}
				if s.Skipped > 0 {
					left = fmt.Sprintf("; %d devices, pipes and sockets left out", s.Skipped)
				}
				if s.Ignored > 0 {
					left += fmt.Sprintf("; %d ignored by git left out, see --include-ignored", s.Ignored)
				}
				if s.GitMissing != "" {
					left += "\nwarning: " + quoted(s.GitMissing)
				}
				_, err := fmt.Printf("copied %s, %s, to %s: %d new, %d replaced%s\n", files, size(s.Bytes), s.Dest, s.Created, s.Replaced, left)
				return err
			})
		})
	cmd.Flags().BoolVar(&req.IncludeIgnored, "include-ignored", false, "also copy files that git ignores")
	cmd.Flags().StringVar(&req.Dest, "dest", pyro.WorkspacePath, "`PATH` of the target: absolute, or relative to /workspace")
	return cmd
}

func newSyncPull() *cobra.Command {
	var req pyro.PullWorkspaceSyncRequest
	var ours, theirs, merge bool
	cmd := onWorkspace("pull ID [HOST_PATH]", "Bring the changes of a running workspace back into your project",
		`Bring all changes of /workspace since its creation into the folder HOST_PATH of this host. The
default is the folder that the workspace was created from. pyro makes all changes or none. It
touches nothing else in the folder, and no folder named .git.

A file that both you and the workspace have changed is a conflict. pyro then lists all conflicts and
changes nothing, unless you choose --theirs (the workspace's file), --ours (this host's file) or
--merge. --merge marks lines that both sides have changed, as git does.

New files that a .gitignore of the workspace ignores are left out.`,
		`  pyro workspace sync pull ws-0123456789ab --dry-run
  pyro workspace sync pull ws-0123456789ab
  pyro workspace sync pull ws-0123456789ab ./copy --merge`,
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID = args[0]
			if len(args) > 1 {
				req.HostPath = args[1]
			}
			for how, set := range map[pyro.Resolve]bool{pyro.ResolveOurs: ours, pyro.ResolveTheirs: theirs, pyro.ResolveMerge: merge} {
				if set {
					req.Resolve = how
				}
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspacePull, error) {
				req.Progress = report
				return p.PullWorkspaceSync(ctx, req)
			}, showPull)
		})
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "change nothing, and show what would be changed, as git status --short does")
	cmd.Flags().BoolVar(&ours, "ours", false, "keep files of this host that have conflicts")
	cmd.Flags().BoolVar(&theirs, "theirs", false, "take files of the workspace that have conflicts")
	cmd.Flags().BoolVar(&merge, "merge", false, "merge text files that have conflicts")
	cmd.Flags().BoolVar(&req.Git, "git", false, "also fetch the commits of the workspace, as the branch pyro/ID")
	cmd.Flags().BoolVar(&req.IncludeIgnored, "include-ignored", false, "also bring back __pycache__ and new files that a .gitignore ignores")
	cmd.MarkFlagsMutuallyExclusive("ours", "theirs", "merge")
	return cmd
}

// pullLetters are the letters of git status --short.
var pullLetters = map[string]string{"added": "A ", "modified": "M ", "deleted": "D ", "type_changed": "T "}

// showPull prints a line for each change that a pull applies.
func showPull(d *pyro.WorkspacePull) error {
	for _, e := range d.Entries {
		letters, note := pullLetters[string(e.Status)], ""
		switch e.Result {
		case "unchanged", "kept":
			if e.Conflict == "" {
				continue
			}
			letters, note = "  ", "  (kept as it is on this host)"
		case "merged":
			note = "  (merged)"
		case "marked":
			letters, note = "UU", "  (has conflict markers)"
		case "conflicted":
			letters, note = "UU", "  ("+e.Conflict+")"
		}
		if _, err := fmt.Printf("%s %s%s\n", letters, quoted(e.Path), note); err != nil {
			return err
		}
	}
	if d.Branch != "" {
		fmt.Fprintf(os.Stderr, "the commits of the workspace are in the branch %s\n", d.Branch)
	}
	fmt.Fprintf(os.Stderr, "[workspace-sync-pull] workspace_id=%s host_path=%s dry_run=%t created=%d replaced=%d deleted=%d conflicts=%d ignored=%d\n",
		d.WorkspaceID, quoted(d.HostPath), d.DryRun, d.Created, d.Replaced, d.Deleted, d.Conflicts, d.Ignored)
	return nil
}

func newWorkspaceExport() *cobra.Command {
	var req pyro.ExportWorkspaceRequest
	cmd := onWorkspace("export ID PATH", "Copy a file or folder out of a running workspace",
		`Copy a file or folder of a workspace to this host, completely or not at all. The copy belongs to
you and has no setuid or setgid bits.

If --output exists, you need --force. It replaces an existing file. In an existing folder it adds
and replaces files, and deletes none. It leaves out folders named .git, because git on this host
would run commands from their hooks and settings.

With --delete, --force also deletes files that the exported folder does not have. It never deletes
files that git ignores, or anything named .git. To bring changes back into your project, use pyro
workspace sync pull.`,
		`  pyro workspace export ws-0123456789ab dist --output ./dist
  pyro workspace export ws-0123456789ab dist --output ./dist --force --delete --dry-run`,
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID, req.Path = args[0], args[1]
			if req.OutputPath == "" {
				return usage(cmd, "--output is missing")
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceExport, error) {
				req.Progress = report
				return p.ExportWorkspace(ctx, req)
			}, func(e *pyro.WorkspaceExport) error {
				if e.OutwardLinks > 0 {
					fmt.Fprintf(os.Stderr, "pyro: warning: %d symbolic links point out of the export, to files of this host\n", e.OutwardLinks)
				}
				if e.LeftOut > 0 {
					fmt.Fprintf(os.Stderr, "pyro: note: %d entries of .git are left out; --include-git writes them\n", e.LeftOut)
				}
				verb := "deleted"
				if req.DryRun {
					verb = "would delete"
				}
				for _, name := range e.Deleted {
					if _, err := fmt.Printf("%s %s\n", verb, quoted(name)); err != nil {
						return err
					}
				}
				if req.DryRun {
					return nil
				}
				_, err := fmt.Printf("exported %s to %s: %s, %s\n", quoted(e.Path), quoted(e.OutputPath), count(e.Files, "file"), size(e.Bytes))
				return err
			})
		})
	cmd.Flags().StringVar(&req.OutputPath, "output", "", "`PATH` of the target on this host")
	cmd.Flags().BoolVar(&req.Force, "force", false, "replace an existing file, or write into an existing folder")
	cmd.Flags().BoolVar(&req.Delete, "delete", false, "with --force: also delete files of an existing folder that the export does not have")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "with --delete: change nothing, and show what would be deleted")
	cmd.Flags().BoolVar(&req.IncludeGit, "include-git", false, "also write folders named .git into an existing folder")
	return cmd
}

func newWorkspacePatch() *cobra.Command {
	return subgroup("patch", "Apply patches to a workspace", newPatchApply())
}

func newPatchApply() *cobra.Command {
	var req pyro.ApplyWorkspacePatchRequest
	var path string
	cmd := onWorkspace("apply ID", "Apply a unified patch to a running workspace",
		`Apply a unified patch, as git diff and diff -u print it, completely or not at all. Its paths are
relative to /workspace. docs/patches.md describes the supported patches.`,
		`  git diff | pyro workspace patch apply ws-0123456789ab --patch-file -
  pyro workspace patch apply ws-0123456789ab --patch-file fix.patch`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID = args[0]
			if req.Patch, err = textOf(cmd, "patch", req.Patch, path); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.AppliedPatch, error) {
				report(pyro.Progress{Phase: "applying the patch", Subject: req.WorkspaceID})
				return p.ApplyWorkspacePatch(ctx, req)
			}, func(a *pyro.AppliedPatch) error {
				for _, f := range a.Entries {
					if _, err := fmt.Printf("%-8s  %s  +%d -%d\n", f.Status, quoted(f.Path), f.LinesAdded, f.LinesRemoved); err != nil {
						return err
					}
				}
				return nil
			})
		})
	cmd.Flags().StringVar(&req.Patch, "patch", "", "the patch")
	cmd.Flags().StringVar(&path, "patch-file", "", "read the patch from the file of the host at this `PATH` (-: standard input)")
	return cmd
}

func newWorkspaceDiff() *cobra.Command {
	var req pyro.DiffWorkspaceRequest
	cmd := onWorkspace("diff ID [PATH...]", "Show the changes since the baseline",
		`Show the changes of /workspace since the workspace was created, as a patch in git's format. Changes
that a patch cannot express go to standard error. PATH limits the output to files and folders.

Folders named __pycache__ and new files that a .gitignore ignores are left out. The last line on
standard error counts them. Changes to files of the baseline are always shown. --include-ignored
shows everything.`,
		`  pyro workspace diff ws-0123456789ab >agent.patch
  pyro workspace diff ws-0123456789ab --stat src docs/index.md`,
		func(cmd *cobra.Command, args []string) error {
			req.WorkspaceID, req.Paths = args[0], args[1:]
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceDiff, error) {
				req.Progress = report
				return p.DiffWorkspace(ctx, req)
			}, func(d *pyro.WorkspaceDiff) error {
				if req.Stat {
					return showStat(d)
				}
				return showDiff(d)
			})
		})
	cmd.Flags().BoolVar(&req.Stat, "stat", false, "print a line for each file instead of the patch")
	cmd.Flags().BoolVar(&req.IncludeIgnored, "include-ignored", false, "also show __pycache__ and files that a .gitignore ignores")
	return cmd
}

// showStat prints one line for each changed path.
func showStat(d *pyro.WorkspaceDiff) error {
	var rows [][]string
	for _, e := range d.Entries {
		lines := fmt.Sprintf("+%d -%d", e.LinesAdded, e.LinesRemoved)
		switch {
		case e.Kind == "directory" || e.Kind == "other":
			lines = string(e.Kind)
		case e.Binary:
			lines = fmt.Sprintf("binary, %s to %s", size(e.OldSize), size(e.NewSize))
		}
		rows = append(rows, []string{string(e.Status), lines, quoted(e.Path)})
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	diffFooter(d)
	return nil
}

// diffFooter prints the counts in a diff to standard error.
func diffFooter(d *pyro.WorkspaceDiff) {
	s := d.Summary
	fmt.Fprintf(os.Stderr, "[workspace-diff] workspace_id=%s added=%d modified=%d deleted=%d type_changed=%d lines=+%d-%d patch_truncated=%t ignored=%d\n",
		d.WorkspaceID, s.Added, s.Modified, s.Deleted, s.TypeChanged, s.LinesAdded, s.LinesRemoved, d.Truncated, s.Ignored)
}

func showDiff(d *pyro.WorkspaceDiff) error {
	for _, e := range d.Entries {
		how := ""
		switch {
		case e.PatchOmitted:
			how = "not in the patch"
		case e.Kind == "directory" || e.Kind == "other":
			how = string(e.Kind)
		case e.OldMode != e.NewMode && e.OldMode != "" && e.NewMode != "":
			how = "mode " + e.OldMode + " to " + e.NewMode
		default:
			continue
		}
		fmt.Fprintf(os.Stderr, "%s  %s  (%s)\n", e.Status, quoted(e.Path), how)
	}
	if _, err := io.WriteString(os.Stdout, d.Patch); err != nil {
		return err
	}
	diffFooter(d)
	return nil
}
