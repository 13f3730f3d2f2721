package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceStats() *cobra.Command {
	var follow bool
	cmd := onWorkspace("stats [ID...]", "Show the resources that workspaces use",
		`Show how much processor time, memory, disk and network workspaces use. Without an ID, show all
workspaces. A workspace that does not run uses only disk.

CPU is the current load: 100 % is one processor. CPU TIME, SENT and RECEIVED count since the start
or the resume of the machine. DISK is the space of all files of the workspace on this host.

With --follow, the table is shown again each second.`,
		`  pyro workspace stats
  pyro workspace stats ws-0123456789ab --follow`,
		func(cmd *cobra.Command, args []string) error {
			req := pyro.StatsWorkspacesRequest{WorkspaceIDs: args}
			if follow {
				return followStats(cmd, req)
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspacesStats, error) {
				return p.StatsWorkspaces(ctx, req)
			}, func(s *pyro.WorkspacesStats) error { return table(os.Stdout, statsRows(s)) })
		})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeWorkspace(cmd, nil, typed)
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show them again each second, until it is interrupted")
	return cmd
}

// clearScreen moves the cursor of a terminal to the top left and clears everything after it.
const clearScreen = "\x1b[H\x1b[J"

// followStats shows the stats each second. On a terminal, it replaces the last table.
func followStats(cmd *cobra.Command, req pyro.StatsWorkspacesRequest) error {
	if wantsJSON(cmd) {
		return usage(cmd, "--follow and --json exclude each other")
	}
	between := "\n"
	if term.IsTerminal(int(os.Stdout.Fd())) {
		between = clearScreen
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (struct{}, error) {
		first := true
		for stats, err := range p.FollowStats(ctx, req) {
			if err != nil {
				return struct{}{}, err
			}
			var text bytes.Buffer // one write, so that the screen does not flicker
			if !first || between == clearScreen {
				text.WriteString(between)
			}
			first = false
			if err := table(&text, statsRows(stats)); err != nil {
				return struct{}{}, err
			}
			if _, err := os.Stdout.Write(text.Bytes()); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	}, func(struct{}) error { return nil })
}

func statsRows(stats *pyro.WorkspacesStats) [][]string {
	rows := [][]string{{"ID", "NAME", "STATE", "CPU", "CPU TIME", "MEMORY", "DISK", "SENT", "RECEIVED"}}
	for _, w := range stats.Workspaces {
		row := []string{w.WorkspaceID, dash(w.Name), string(w.State), "-", "-", "-", size(w.DiskBytes), "-", "-"}
		if m := w.Machine; m != nil {
			row[3] = fmt.Sprintf("%.0f %%", m.CPUPercent)
			row[4] = time.Duration(m.CPUSeconds * float64(time.Second)).Round(10 * time.Millisecond).String()
			row[5] = size(m.MemBytes) + " / " + size(m.MemLimitBytes)
			row[7], row[8] = size(m.SentBytes), size(m.ReceivedBytes)
		}
		rows = append(rows, row)
	}
	return rows
}
