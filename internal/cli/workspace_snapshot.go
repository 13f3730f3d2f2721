package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceSnapshot() *cobra.Command {
	return subgroup("snapshot", "Save, list and delete states of a workspace", newSnapshotCreate(), newSnapshotList(), newSnapshotDelete())
}

func newSnapshotCreate() *cobra.Command {
	var full bool
	cmd := onWorkspace("create ID NAME", "Save the current state of a workspace",
		`Save /workspace under a name, for reset and fork. With --full, also save the root disk, for example
installed packages. The workspace can be running.`,
		"  pyro workspace snapshot create ws-0123456789ab before-refactoring",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceSnapshot, error) {
				return p.CreateSnapshot(ctx, pyro.CreateSnapshotRequest{WorkspaceID: args[0], SnapshotName: args[1], Full: full, Progress: report})
			}, func(s *pyro.WorkspaceSnapshot) error {
				_, err := fmt.Printf("%s contains %s\n", s.Snapshot.SnapshotName, content(s.Snapshot))
				return err
			})
		})
	cmd.Flags().BoolVar(&full, "full", false, "also save the root disk")
	return cmd
}

func content(s pyro.Snapshot) string {
	if s.Full {
		return "/workspace and the root disk"
	}
	return "/workspace"
}

func newSnapshotList() *cobra.Command {
	return onWorkspace("list ID", "List the snapshots of a workspace", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceSnapshots, error) {
			return p.ListSnapshots(ctx, args[0])
		}, func(all *pyro.WorkspaceSnapshots) error {
			now := time.Now()
			rows := [][]string{{"NAME", "CONTENT", "SIZE", "CREATED"}}
			for _, s := range all.Snapshots {
				rows = append(rows, []string{s.SnapshotName, content(s), size(s.SizeBytes), ago(now, s.CreatedAt)})
			}
			return table(os.Stdout, rows)
		})
	})
}

func newSnapshotDelete() *cobra.Command {
	return onWorkspace("delete ID NAME", "Delete a snapshot", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.DeletedSnapshot, error) {
			report(pyro.Progress{Phase: "deleting the snapshot", Subject: args[0]})
			return p.DeleteSnapshot(ctx, args[0], args[1])
		}, func(d *pyro.DeletedSnapshot) error {
			_, err := fmt.Println("deleted", d.SnapshotName)
			return err
		})
	})
}

func newWorkspaceReset() *cobra.Command {
	var snapshot string
	cmd := onWorkspace("reset ID", "Return a workspace to its baseline or a snapshot",
		`Return a workspace to its baseline or to a snapshot, with a new machine. The root is new too, unless
the snapshot is a full one. Running programs are killed and the history is deleted. The id, name,
labels, snapshots and baseline stay.`,
		`  pyro workspace reset ws-0123456789ab
  pyro workspace reset ws-0123456789ab --snapshot before-refactoring`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: args[0], Snapshot: snapshot, Progress: report})
			}, showWorkspace)
		})
	cmd.Flags().StringVar(&snapshot, "snapshot", pyro.BaselineSnapshot, "`NAME` of the snapshot to return to")
	return cmd
}

func newWorkspaceFork() *cobra.Command {
	var req pyro.ForkWorkspaceRequest
	var set []string
	var idOnly bool
	cmd := onWorkspace("fork ID", "Create copies of a workspace",
		`Create workspaces from the current /workspace and root disk of another workspace, or from one of its
snapshots. The first state of a fork is its baseline. With --live, a fork also has the running
programs of the source workspace. The source workspace pauses briefly and then continues.`,
		"  pyro workspace fork ws-0123456789ab --count 3 --snapshot before-refactoring --id-only",
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID = args[0]
			if req.Labels, err = parsePairs("KEY=VALUE", set); err != nil {
				return err
			}
			if wantsJSON(cmd) && idOnly {
				return usage(cmd, "--json and --id-only exclude each other")
			}
			var failed error
			err = operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.ForkedWorkspaces, error) {
				req.Progress = report
				made, err := p.ForkWorkspace(ctx, req)
				if made != nil { // some forks can exist although others failed
					failed, err = err, nil
				}
				return made, err
			}, func(all *pyro.ForkedWorkspaces) error {
				rows := [][]string{{"ID", "NAME", "ENVIRONMENT", "STATE"}}
				for _, w := range all.Workspaces {
					rows = append(rows, []string{w.WorkspaceID, dash(w.Name), w.Environment, string(w.State)})
					if idOnly {
						fmt.Println(w.WorkspaceID)
					}
				}
				if idOnly {
					return nil
				}
				return table(os.Stdout, rows)
			})
			if err == nil && failed != nil && wantsJSON(cmd) { // standard output already contains the JSON of the forks, so the error is printed as text
				printError(failed.Error(), pyro.HintOf(failed))
				return exit{code: fault.ExitCode(failed)}
			}
			return cmp.Or(err, failed)
		})
	f := cmd.Flags()
	f.Var(positive(&req.Count, 1), "count", "number of forks")
	f.StringVar(&req.Snapshot, "snapshot", "", "`NAME` of the snapshot to start from (baseline: the first state)")
	f.BoolVar(&req.Live, "live", false, "also copy running programs")
	f.StringVar(&req.Name, "name", "", "`NAME` of the fork; several forks are named NAME-1, NAME-2 and so on (default: from the name of the workspace)")
	f.StringArrayVar(&set, "label", nil, "set a label of the forks, as `KEY=VALUE` (repeatable)")
	f.BoolVar(&idOnly, "id-only", false, "print only the ids")
	return cmd
}
