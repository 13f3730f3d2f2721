package workspace

import (
	"cmp"
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// note adds to the record of what was done in a workspace, when it has been done, by an operation that began at a time: for those that a machine takes part
// in, after they were connected to it, so that a reset in between is told from one before. What was done stays done where this fails, and an error would say
// that it did not happen: so there is none, and the record goes without. No secret gets into it.
func (m *Manager) note(ctx context.Context, w store.Workspace, began time.Time, kind store.EventKind, d store.Detail) {
	ctx = context.WithoutCancel(ctx) // it has been done, whoever waits for that or not
	hide, err := m.redactor(ctx, w)
	if err != nil {
		return
	}
	_ = m.Store.Note(ctx, w.ID, store.Event{Kind: kind, At: time.Now(), Detail: d.Texts(hide.Text)}, began)
}

// Activity is what was done in a workspace since it was created or last reset, and what came of it.
type Activity struct {
	Workspace
	Since    time.Time
	Work     store.Work
	Services []Service      // sorted by name
	Shells   []remote.Shell // that are open, the oldest first
	Changes  *diff.Result   // how /workspace differs from the baseline; nil: Unknown says why that can't be told
	Unknown  string
}

// Summarize tells what was done in a workspace, and how it differs from its baseline, with at most so many paths. It need not run; then it can't be compared.
func (m *Manager) Summarize(ctx context.Context, id string, paths int) (Activity, error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return Activity{}, err
	}
	work, err := m.Store.Work(ctx, id)
	if err != nil {
		return Activity{}, err
	}
	a := Activity{Workspace: m.now(ctx, work.Workspace), Since: work.CreatedAt, Work: work}
	if !work.LastResetAt.IsZero() {
		a.Since = work.LastResetAt
	}
	for _, s := range work.Services {
		a.Services = append(a.Services, serviceNow(s, a.State))
	}
	a.Work.Snapshots = nil
	for _, s := range work.Snapshots {
		if !passing(s.Name) {
			a.Work.Snapshots = append(a.Work.Snapshots, s)
		}
	}
	if a.State == Started {
		a.Shells = m.openShells(ctx, id)
	}
	if err := m.changes(ctx, &a, paths); err != nil {
		return Activity{}, err
	}
	return a, nil
}

// openShells gives the shells of a workspace; none where it has ended meanwhile.
func (m *Manager) openShells(ctx context.Context, id string) []remote.Shell {
	shells, err := m.Shells(ctx, id)
	if err != nil {
		return nil
	}
	defer shells.Close()
	all, err := shells.Shells(ctx)
	if err != nil {
		return nil
	}
	return all
}

// changes finds out how a workspace differs from its baseline, or why that can't be told.
func (m *Manager) changes(ctx context.Context, a *Activity, paths int) error {
	hide, err := m.redactor(ctx, a.Workspace.Workspace)
	if err != nil {
		return err
	}
	if a.State != Started {
		a.Unknown = "it is " + string(a.State)
		return nil
	}
	r, err := m.Diff(ctx, a.ID, nil, diff.Options{EntryLimit: paths})
	if err != nil {
		if _, gone := m.record(ctx, store.KindWorkspace, a.ID); gone != nil || ctx.Err() != nil {
			return cmp.Or(gone, context.Cause(ctx))
		}
		a.Unknown = hide.Text(fault.Printable(err.Error()))
		return nil
	}
	r.Summary.PatchOmitted = 0 // there is no patch
	for i := range r.Entries {
		r.Entries[i].PatchOmitted = false
		for _, text := range []*string{&r.Entries[i].Path, &r.Entries[i].OldLink, &r.Entries[i].NewLink} {
			*text = hide.Text(*text)
		}
	}
	a.Changes = r
	return nil
}
