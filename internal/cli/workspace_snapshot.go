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
	return subgroup("snapshot", "Keep states of a workspace, and forget them", newSnapshotCreate(), newSnapshotList(), newSnapshotDelete())
}

func newSnapshotCreate() *cobra.Command {
	var full bool
	cmd := onWorkspace("create ID NAME", "Keep the present state of a workspace",
		`Keep the present /workspace of a workspace under a name, to be reset to or forked from. With
--full its root disk too: what was installed, for one. The workspace may run.`,
		"  pyro workspace snapshot create ws-0123456789ab before-refactoring",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceSnapshot, error) {
				return p.CreateSnapshot(ctx, pyro.CreateSnapshotRequest{WorkspaceID: args[0], SnapshotName: args[1], Full: full})
			}, func(s *pyro.WorkspaceSnapshot) error {
				_, err := fmt.Printf("%s keeps %s\n", s.Snapshot.SnapshotName, kept(s.Snapshot))
				return err
			})
		})
	cmd.Flags().BoolVar(&full, "full", false, "keep the root disk too")
	return cmd
}

func kept(s pyro.Snapshot) string {
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
			rows := [][]string{{"NAME", "KEEPS", "SIZE", "CREATED"}}
			for _, s := range all.Snapshots {
				rows = append(rows, []string{s.SnapshotName, kept(s), size(s.SizeBytes), ago(now, s.CreatedAt)})
			}
			return table(os.Stdout, rows)
		})
	})
}

func newSnapshotDelete() *cobra.Command {
	return onWorkspace("delete ID NAME", "Forget a snapshot", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.DeletedSnapshot, error) {
			return p.DeleteSnapshot(ctx, args[0], args[1])
		}, func(d *pyro.DeletedSnapshot) error {
			_, err := fmt.Println("deleted", d.SnapshotName)
			return err
		})
	})
}

func newWorkspaceReset() *cobra.Command {
	var snapshot string
	cmd := onWorkspace("reset ID", "Give a workspace a new machine, and an earlier /workspace",
		`Give a workspace a new machine, with a fresh root, and the /workspace of its baseline or of a
snapshot; of a full snapshot the root too. What runs in it is killed, and its history is
forgotten. Its id, name, labels, snapshots and baseline stay.`,
		`  pyro workspace reset ws-0123456789ab
  pyro workspace reset ws-0123456789ab --snapshot before-refactoring`,
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.ResetWorkspace(ctx, pyro.ResetWorkspaceRequest{WorkspaceID: args[0], Snapshot: snapshot, Progress: report})
			}, showWorkspace)
		})
	cmd.Flags().StringVar(&snapshot, "snapshot", pyro.BaselineSnapshot, "the state to go back to, by its `NAME`")
	return cmd
}

func newWorkspaceFork() *cobra.Command {
	var req pyro.ForkWorkspaceRequest
	var set []string
	var idOnly bool
	cmd := onWorkspace("fork ID", "Make new workspaces that begin as another",
		`Make new workspaces that begin as another one is now, with its /workspace and its root disk,
or as a snapshot of it. What they begin as is their baseline. With --live all that runs in it
goes on in each of them, and in the workspace itself, which stands still for a moment.`,
		"  pyro workspace fork ws-0123456789ab --count 3 --snapshot before-refactoring --id-only",
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID = args[0]
			if req.Labels, err = parsePairs("--label", set); err != nil {
				return err
			}
			if wantsJSON(cmd) && idOnly {
				return usage(cmd, "--json and --id-only exclude each other")
			}
			var failed error
			err = operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.ForkedWorkspaces, error) {
				req.Progress = report
				made, err := p.ForkWorkspace(ctx, req)
				if made != nil { // those that were made are there, whatever became of the others
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
			if err == nil && failed != nil && wantsJSON(cmd) { // the one value that is printed is what was made
				complain(failed.Error(), pyro.HintOf(failed))
				return exit{code: fault.ExitCode(failed)}
			}
			return cmp.Or(err, failed)
		})
	f := cmd.Flags()
	f.Var(positive(&req.Count, 1), "count", "how many to make")
	f.StringVar(&req.Snapshot, "snapshot", "", "begin as this snapshot, by its `NAME` (baseline: as it was created)")
	f.BoolVar(&req.Live, "live", false, "with all that runs in it")
	f.StringVar(&req.Name, "name", "", "call it so, and several of them `NAME`-1, NAME-2 and so on (default: the same with the name of the workspace)")
	f.StringArrayVar(&set, "label", nil, "label them, as `KEY=VALUE` (repeatable)")
	f.BoolVar(&idOnly, "id-only", false, "print the ids and nothing else")
	return cmd
}
