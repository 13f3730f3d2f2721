package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceList() *cobra.Command {
	var filter pyro.WorkspaceFilter
	var set []string
	var state string
	cmd := command("list", "List workspaces", "List workspaces, the one that something was last done with first.",
		"  pyro workspace list --label ticket=42 --state started",
		func(cmd *cobra.Command, _ []string) (err error) {
			if filter.Labels, err = parsePairs("--label", set); err != nil {
				return err
			}
			filter.State = pyro.WorkspaceState(state)
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (map[string][]pyro.WorkspaceSummary, error) {
				all, err := p.ListWorkspaces(ctx, filter)
				return map[string][]pyro.WorkspaceSummary{"workspaces": all}, err
			}, func(all map[string][]pyro.WorkspaceSummary) error { return showWorkspaces(all["workspaces"]) })
		})
	cmd.Flags().StringArrayVar(&set, "label", nil, "only those with this label, `KEY=VALUE` (repeatable: with all of them)")
	cmd.Flags().StringVar(&state, "state", "", "only those in this `STATE`: started, stopped, paused or damaged")
	completeFlag(cmd, "state", pyro.WorkspaceStates)
	return cmd
}

func showWorkspaces(all []pyro.WorkspaceSummary) error {
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "there are no workspaces: pyro workspace create ENV makes one")
		return nil
	}
	now := time.Now()
	rows := [][]string{{"ID", "NAME", "ENVIRONMENT", "STATE", "COMMANDS", "SERVICES", "LAST ACTIVITY", "STOPS", "LABELS"}}
	for _, w := range all {
		stops := "-"
		if w.ExpiresAt != nil {
			stops = ahead(now, *w.ExpiresAt)
		}
		rows = append(rows, []string{
			w.WorkspaceID, dash(w.Name), w.Environment, string(w.State), fmt.Sprint(w.CommandCount), services(w), ago(now, w.LastActivityAt), stops, dash(labels(w.Labels)),
		})
	}
	return table(os.Stdout, rows)
}

// dash stands for nothing in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newWorkspaceStatus() *cobra.Command {
	return onWorkspace("status ID", "Tell what a workspace is now", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Workspace, error) {
			return p.StatusWorkspace(ctx, args[0])
		}, showWorkspace)
	})
}

func newWorkspaceUpdate() *cobra.Command {
	var req pyro.UpdateWorkspaceRequest
	var name string
	var set []string
	cmd := onWorkspace("update ID", "Change a workspace's name and labels", "",
		`  pyro workspace update ws-0123456789ab --name fix-tests --label ticket=42
  pyro workspace update ws-0123456789ab --clear-name --clear-label ticket`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID = args[0]
			if cmd.Flags().Changed("name") {
				req.Name = &name
			}
			if req.Labels, err = parsePairs("--label", set); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.UpdateWorkspace(ctx, req)
			}, showWorkspace)
		})
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "call it so")
	f.BoolVar(&req.ClearName, "clear-name", false, "take its name away")
	f.StringArrayVar(&set, "label", nil, "set a label, as `KEY=VALUE` (repeatable)")
	f.StringArrayVar(&req.ClearLabels, "clear-label", nil, "remove the label of this `KEY` (repeatable)")
	return cmd
}

func newWorkspaceDelete() *cobra.Command {
	show := func(d *pyro.DeletedWorkspace) error {
		_, err := fmt.Println("deleted", d.WorkspaceID)
		return err
	}
	return onEach("delete ID...", "Remove workspaces with all that they hold",
		"Remove workspaces with all that they hold, whatever state they are in. What runs in them is killed.",
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.DeletedWorkspace, error) {
			return p.DeleteWorkspace(ctx, id)
		}, show, show)
}

func newWorkspaceStart() *cobra.Command {
	return onWorkspace("start ID", "Start a workspace that is stopped",
		"Start a workspace that is stopped, with its /workspace, its root, snapshots and history as they were.", "",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.StartWorkspace(ctx, pyro.StartWorkspaceRequest{WorkspaceID: args[0], Progress: report})
			}, showWorkspace)
		})
}

func newWorkspacePause() *cobra.Command {
	return onEach("pause ID...", "Write down workspaces with all that runs in them, and end their machines",
		`Write the memory of a workspace's machine to the disk, with all that runs in it, and end the
machine: it takes no memory any more. What is done next with the workspace has everything go on
where it stood. Connections to elsewhere are closed by then.`,
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.Workspace, error) {
			return p.PauseWorkspace(ctx, id)
		}, showWorkspace, showState)
}

func newWorkspaceResume() *cobra.Command {
	return onWorkspace("resume ID", "Have a workspace go on that is paused",
		"Have a workspace go on that is paused, as whatever else is done with it would.", "",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.ResumeWorkspace(ctx, pyro.ResumeWorkspaceRequest{WorkspaceID: args[0], Progress: report})
			}, showWorkspace)
		})
}

func newWorkspaceStop() *cobra.Command {
	return onEach("stop ID...", "Stop workspaces, with nothing lost",
		"Stop workspaces: what runs in them is killed, their disks are flushed and unmounted. They can be started again.",
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.Workspace, error) {
			return p.StopWorkspace(ctx, id)
		}, showWorkspace, showState)
}

// services tells how many there are, and how many of them run.
func services(w pyro.WorkspaceSummary) string {
	if w.ServiceCount == 0 {
		return "-"
	}
	return serviceCounts(w.ServiceCount, w.RunningCount, w.State)
}
