package pyro

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// commandLine returns a command as a shell command line, truncated to MaxRecentLineSize.
func commandLine(argv []string) string {
	line := fault.CommandLine(argv)
	if len(line) > MaxRecentLineSize {
		line = strings.ToValidUTF8(line[:MaxRecentLineSize], "") + "…"
	}
	return text(line)
}

func recentCommands(w store.Work) RecentCommands {
	r := RecentCommands{Total: w.CommandCount, Failed: w.FailedCount, Recent: []RecentCommand{}}
	for _, c := range w.Commands {
		r.Recent = append(r.Recent, RecentCommand{
			Sequence: c.Sequence, Command: commandLine(c.Argv), Cwd: text(c.Cwd), StartedAt: c.StartedAt, EndedAt: moment(c.EndedAt), ExitCode: exitCode(c),
			TimedOut: c.Result.TimedOut, DurationMS: ms(c.Result.Duration),
		})
	}
	return r
}

func recentServices(w *Workspace, a workspace.Activity) RecentServices {
	r := RecentServices{Total: w.ServiceCount, Running: w.RunningCount, Recent: []RecentService{}}
	for _, one := range a.Services {
		s := newService(a.ID, a.Spec, one)
		r.Recent = append(r.Recent, RecentService{s.ServiceName, s.State, s.StateReason, commandLine(s.Argv), s.StartedAt, s.EndedAt, s.ExitCode})
	}
	r.Recent = last(r.Recent, func(s RecentService) time.Time { return s.StartedAt })
	return r
}

func activityChanges(a workspace.Activity) ActivityChanges {
	if a.Changes == nil {
		return ActivityChanges{Reason: a.Unknown, Entries: []ChangedFile{}}
	}
	escapeChanges(a.Changes.Entries)
	return ActivityChanges{
		Available: true, Changed: len(a.Changes.Entries) > 0, Summary: &a.Changes.Summary, Entries: a.Changes.Entries, Cut: a.Changes.EntriesTruncated,
	}
}

// addEvents adds the edits, exports, shells and snapshots of a workspace.
func (r *WorkspaceActivity) addEvents(a workspace.Activity) {
	shells := map[string]ShellState{}
	for _, s := range a.Shells {
		shells[s.ID] = newShell(a.ID, a.Spec, s).State
	}
	r.Edits.Recent, r.Shells.Recent = []RecentEdit{}, []RecentShell{}
	r.Artifacts.Exports, r.Snapshots.Recent = []RecentExport{}, []RecentSnapshot{}
	for _, s := range a.Work.Snapshots {
		if !s.CreatedAt.Before(a.Since) {
			r.Snapshots.Recent = append(r.Snapshots.Recent, RecentSnapshot{"created", s.Name, s.CreatedAt})
		}
	}
	r.Snapshots.Named, r.Snapshots.Created = len(a.Work.Snapshots), len(r.Snapshots.Recent)
	for _, e := range a.Work.Events {
		d := e.Detail
		switch e.Kind {
		case store.EventWrite, store.EventPatch, store.EventSync:
			r.Edits.Recent = append(r.Edits.Recent, RecentEdit{
				EditKind(e.Kind), e.At, cmp.Or(d.Path, WorkspacePath), d.Paths, d.Host, d.Files, d.Bytes, d.LinesAdded, d.LinesRemoved,
			})
		case store.EventExport:
			r.Artifacts.Exports = append(r.Artifacts.Exports, RecentExport{e.At, d.Path, d.Host, ArtifactType(d.Artifact), d.Files, d.Bytes})
		case store.EventShell:
			r.Shells.Recent = append(r.Shells.Recent, RecentShell{d.Name, cmp.Or(shells[d.Name], ShellClosed), d.Path, e.At})
		case store.EventSnapshotDeleted:
			r.Snapshots.Recent = append(r.Snapshots.Recent, RecentSnapshot{"deleted", d.Name, e.At})
		}
	}
	r.Edits.Recent = last(r.Edits.Recent, func(e RecentEdit) time.Time { return e.At })
	r.Snapshots.Recent = last(r.Snapshots.Recent, func(s RecentSnapshot) time.Time { return s.At })
	r.Edits.Total = total(a.Work.Events, store.EventWrite) + total(a.Work.Events, store.EventPatch) + total(a.Work.Events, store.EventSync)
	r.Artifacts.Total, r.Snapshots.Deleted = total(a.Work.Events, store.EventExport), total(a.Work.Events, store.EventSnapshotDeleted)
	r.Shells.Total, r.Shells.Open = total(a.Work.Events, store.EventShell), len(a.Shells)
}

// total returns the number of events of a kind. This is the sequence number of the last event of
// that kind.
func total(events []store.Event, kind store.EventKind) (n int) {
	for _, e := range events {
		if e.Kind == kind {
			n = e.Sequence
		}
	}
	return n
}

// last sorts a list by time and returns the last MaxRecent entries, oldest first.
func last[T any](all []T, when func(T) time.Time) []T {
	slices.SortStableFunc(all, func(a, b T) int { return when(a).Compare(when(b)) })
	return all[max(0, len(all)-MaxRecent):]
}
