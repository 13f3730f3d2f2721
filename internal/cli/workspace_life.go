package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/operations"
)

func newWorkspaceList() *cobra.Command {
	var filter pyro.WorkspaceFilter
	var set []string
	var state string
	cmd := command("list", "List workspaces", "List workspaces, the last used first.",
		"  pyro workspace list --label ticket=42 --state started",
		func(cmd *cobra.Command, _ []string) (err error) {
			if filter.Labels, err = parsePairs("KEY=VALUE", set); err != nil {
				return err
			}
			filter.State = pyro.WorkspaceState(state)
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*operations.Workspaces, error) {
				return operations.ListWorkspaces(p, ctx, filter)
			}, func(all *operations.Workspaces) error { return showWorkspaces(all.Workspaces) })
		})
	cmd.Flags().StringArrayVar(&set, "label", nil, "only workspaces with this label, as `KEY=VALUE` (if repeated: with all of the labels)")
	cmd.Flags().StringVar(&state, "state", "", "only workspaces in this `STATE`: started, stopped, paused or damaged")
	completeFlag(cmd, "state", pyro.WorkspaceStates)
	return cmd
}

func showWorkspaces(all []pyro.WorkspaceSummary) error {
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "there are no workspaces; pyro workspace create ENV creates one")
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

// dash returns "-" if the text is empty. Tables use it for empty cells.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newWorkspaceStatus() *cobra.Command {
	return onWorkspace("status ID", "Show the state and settings of a workspace", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Workspace, error) {
			return p.StatusWorkspace(ctx, args[0])
		}, showWorkspace)
	})
}

func newWorkspaceDelete() *cobra.Command {
	show := func(d *pyro.DeletedWorkspace) error {
		_, err := fmt.Println("deleted", d.WorkspaceID)
		return err
	}
	return onEach("delete ID...", "deleting", "Delete workspaces",
		"Delete workspaces in any state, with their files, snapshots and history. Their programs are killed.",
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.DeletedWorkspace, error) {
			return p.DeleteWorkspace(ctx, id)
		}, show, show)
}

func newWorkspaceStart() *cobra.Command {
	return onWorkspace("start ID", "Start a stopped workspace",
		"Start a stopped workspace. Its files, snapshots and history are unchanged.", "",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.StartWorkspace(ctx, pyro.StartWorkspaceRequest{WorkspaceID: args[0], Progress: report})
			}, showWorkspace)
		})
}

func newWorkspacePause() *cobra.Command {
	return onEach("pause ID...", "saving the machine", "Save workspaces to disk and free their memory",
		`Save the machine of a workspace to disk, with its running programs, and free its memory. The next
use of the workspace resumes all programs. Connections to other computers are closed.`,
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.Workspace, error) {
			return p.PauseWorkspace(ctx, id)
		}, showWorkspace, showState)
}

func newWorkspaceResume() *cobra.Command {
	return onWorkspace("resume ID", "Resume a paused workspace",
		"Resume a paused workspace. Every other use of the workspace resumes it too.", "",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				return p.ResumeWorkspace(ctx, pyro.ResumeWorkspaceRequest{WorkspaceID: args[0], Progress: report})
			}, showWorkspace)
		})
}

func newWorkspaceStop() *cobra.Command {
	return onEach("stop ID...", "stopping", "Stop workspaces and keep their files",
		"Stop workspaces. Their programs are killed and their files stay. They can be started again.",
		func(ctx context.Context, p *pyro.Pyro, id string) (*pyro.Workspace, error) {
			return p.StopWorkspace(ctx, id)
		}, showWorkspace, showState)
}

// services formats the number of services of a workspace.
func services(w pyro.WorkspaceSummary) string {
	if w.ServiceCount == 0 {
		return "-"
	}
	return serviceCounts(w.ServiceCount, w.RunningCount, w.State)
}
