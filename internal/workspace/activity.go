package workspace

import (
	"cmp"
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// addEvent records an operation that has succeeded, with secrets redacted. began is when the
// operation started. If the operation needs a machine, began is the time after connecting, so that
// a reset in between is noticed. If the record can't be written, addEvent ignores that: an error
// would suggest that the operation failed.
func (m *Manager) addEvent(ctx context.Context, w store.Workspace, began time.Time, kind store.EventKind, d store.Detail) {
	ctx = context.WithoutCancel(ctx) // the operation has succeeded, even if the caller's context has ended
	hide, err := m.redactor(ctx, w)
	if err != nil {
		return
	}
	_ = m.Store.AddEvent(ctx, w.ID, store.Event{Kind: kind, At: time.Now(), Detail: d.Texts(hide.Text)}, began)
}

// Activity is a summary of the work in a workspace since it was created or last reset.
type Activity struct {
	Workspace
	Since    time.Time
	Work     store.Work
	Services []Service    // sorted by name.
	Shells   []Shell      // open shells, oldest first.
	Changes  *diff.Result // differences from the baseline; nil: Unknown says why they are missing.
	Unknown  string
}

// Summarize describes the work in a workspace. It also lists the differences from the baseline,
// limited to the given number of paths. The differences are available only if the workspace runs.
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
		if !s.Temporary() {
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

// openShells returns the open shells of a workspace, or none if the workspace no longer runs.
func (m *Manager) openShells(ctx context.Context, id string) []Shell {
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

// changes adds the differences from the baseline to a, or the reason why they are not available.
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
	r.Summary.PatchOmitted = 0 // the summary contains no patch
	for i := range r.Entries {
		r.Entries[i].PatchOmitted = false
		for _, text := range []*string{&r.Entries[i].Path, &r.Entries[i].OldLink, &r.Entries[i].NewLink} {
			*text = hide.Text(*text)
		}
	}
	a.Changes = r
	return nil
}
