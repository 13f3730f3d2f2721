package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceSummary() *cobra.Command {
	return onWorkspace("summary ID", "Show the activity in a workspace and its changes",
		`Show the activity in a workspace since its creation or last reset: commands, written files, patches,
syncs, exports, services, shells and snapshots. The list has the latest of each. If the workspace
runs, the summary also counts the changes of /workspace.`,
		"  pyro workspace summary ws-0123456789ab",
		func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.WorkspaceActivity, error) {
				report(pyro.Progress{Phase: "comparing files", Subject: args[0]})
				return p.SummarizeWorkspace(ctx, args[0])
			}, showSummary)
		})
}

func showSummary(a *pyro.WorkspaceActivity) error {
	now := time.Now()
	rows := [][]string{{"ID:", a.WorkspaceID}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name + ":", value})
		}
	}
	add("Name", a.Name)
	add("Labels", labels(a.Labels))
	add("Environment", a.Environment)
	add("State", strings.TrimSuffix(string(a.State)+": "+a.StateReason, ": "))
	since := "it was created"
	if a.Outcome.ResetCount > 0 {
		since = fmt.Sprintf("reset %d", a.Outcome.ResetCount)
	}
	add("Since", since+", "+ago(now, a.SessionStartedAt))
	add("Commands", of(a.Commands.Total, part{a.Commands.Failed, "failed"}))
	patches, syncs := a.Outcome.PatchCount, a.Outcome.SyncCount
	add("Edits", of(a.Edits.Total, part{a.Edits.Total - patches - syncs, "files written"}, part{patches, "patches"}, part{syncs, "syncs"}))
	add("Exports", of(a.Artifacts.Total))
	add("Services", of(a.Services.Total, part{a.Services.Running, "running"}))
	add("Shells", of(a.Shells.Total, part{a.Shells.Open, "open"}))
	add("Snapshots", of(a.Snapshots.Named, part{a.Snapshots.Created, "new"}, part{a.Snapshots.Deleted, "deleted"}))
	add("Changes", changed(a.Changes))
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	if err := showSteps(now, steps(a)); err != nil {
		return err
	}
	return showChanges(a.WorkspaceID, a.Changes)
}

// part is a number of objects of one kind.
type part struct {
	n    int
	what string
}

// of formats a number with its nonzero parts, such as "3 (2 files written, 1 patches)".
func of(n int, parts ...part) string {
	var texts []string
	for _, p := range parts {
		if p.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(texts) == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%s)", n, strings.Join(texts, ", "))
}

func changed(c pyro.ActivityChanges) string {
	if !c.Available {
		return "unknown: " + c.Reason
	}
	s := c.Summary
	text := of(s.Added+s.Modified+s.Deleted+s.TypeChanged,
		part{s.Added, "added"}, part{s.Modified, "modified"}, part{s.Deleted, "deleted"}, part{s.TypeChanged, "of another type"})
	if s.LinesAdded+s.LinesRemoved > 0 {
		text += fmt.Sprintf(", lines +%d -%d", s.LinesAdded, s.LinesRemoved)
	}
	return text
}

// step is one event in the summary.
type step struct {
	at         time.Time
	what, text string
}

// steps returns all events that have a time, the oldest first.
func steps(a *pyro.WorkspaceActivity) (all []step) {
	add := func(at time.Time, what, format string, args ...any) {
		all = append(all, step{at, what, fmt.Sprintf(format, args...)})
	}
	for _, c := range a.Commands.Recent {
		how := "no end seen"
		if c.ExitCode != nil {
			how = fmt.Sprintf("exit code %d", *c.ExitCode)
		}
		add(c.StartedAt, "command", "%s  (%s)", oneLine(c.Command), how)
	}
	for _, e := range a.Edits.Recent {
		switch e.Kind {
		case pyro.EditPatch:
			more := ""
			if e.Files > len(e.Paths) {
				more = fmt.Sprintf(" and %d more", e.Files-len(e.Paths))
			}
			add(e.At, "patch", "%s%s  (+%d -%d)", oneLine(strings.Join(e.Paths, " ")), more, e.LinesAdded, e.LinesRemoved)
		case pyro.EditSync:
			add(e.At, "sync", "%s to %s  (%s, %s)", oneLine(e.SourcePath), oneLine(e.Path), count(e.Files, "file"), size(e.Bytes))
		default:
			add(e.At, "write", "%s  (%s)", oneLine(e.Path), size(e.Bytes))
		}
	}
	for _, s := range a.Services.Recent {
		add(s.StartedAt, "service", "%s: %s  (%s)", s.ServiceName, oneLine(s.Command), s.State)
	}
	for _, s := range a.Shells.Recent {
		add(s.OpenedAt, "shell", "%s in %s  (%s)", s.ShellID, oneLine(s.Cwd), s.State)
	}
	for _, e := range a.Artifacts.Exports {
		what := e.Path
		if e.ArtifactType == pyro.DiskArtifact {
			what = "the disk"
		}
		add(e.At, "export", "%s to %s  (%s)", oneLine(what), oneLine(e.OutputPath), size(e.Bytes))
	}
	for _, s := range a.Snapshots.Recent {
		add(s.At, "snapshot", "%s  (%s)", s.SnapshotName, s.Action)
	}
	slices.SortStableFunc(all, func(a, b step) int { return a.at.Compare(b.at) })
	return all
}

// showSteps prints the latest events.
func showSteps(now time.Time, all []step) error {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"\nWHEN", "WHAT", "DETAIL"}}
	for _, s := range all[max(0, len(all)-pyro.MaxRecent):] {
		rows = append(rows, []string{ago(now, s.at), s.what, s.text})
	}
	return table(os.Stdout, rows)
}

// showChanges prints the first of the changed paths.
func showChanges(id string, c pyro.ActivityChanges) error {
	if len(c.Entries) == 0 {
		return nil
	}
	rows := [][]string{{"\nCHANGE", "LINES", "PATH"}}
	for _, e := range c.Entries[:min(len(c.Entries), pyro.MaxRecent)] {
		lines := "-"
		if e.LinesAdded+e.LinesRemoved > 0 {
			lines = fmt.Sprintf("+%d -%d", e.LinesAdded, e.LinesRemoved)
		}
		rows = append(rows, []string{string(e.Status), lines, oneLine(e.Path)})
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	if s := c.Summary; s.Added+s.Modified+s.Deleted+s.TypeChanged > pyro.MaxRecent {
		_, err := fmt.Printf("… and more: pyro workspace diff %s\n", id)
		return err
	}
	return nil
}

// oneLine shortens a text to one line for a table. The line is safe for a terminal.
func oneLine(text string) string {
	const most = 80
	runes := []rune(strings.Join(strings.Fields(fault.Printable(text)), " "))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
