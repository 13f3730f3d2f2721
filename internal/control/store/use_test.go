package store_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// add adds a sandbox with 2 processors and 512 MB, which has not run yet.
func (w *world) add(t *testing.T) string {
	t.Helper()
	n := w.newSandbox()
	n.VCPUs = 2
	_, _, err := w.AddSandbox(t.Context(), n)
	check(t, err)
	return n.ID
}

// TestSamples compares samples with the changes that they come from: one sandbox runs from 10:00
// to 10:30, another from 10:20 until it is removed at 11:10.
func TestSamples(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, ten := t.Context(), time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
		at := func(minutes int) time.Time { return ten.Add(time.Duration(minutes) * time.Minute) }
		report := func(id, status string, minute int) {
			t.Helper()
			check(t, w.Report(ctx, id, status, ten, at(minute), at(minute)))
		}
		one, two := w.add(t), w.add(t)
		report(one, "running", 0)
		report(one, "running", 5) // changes only its time of activity
		report(two, "running", 20)
		report(one, "paused", 30)
		report(two, "missing", 70)

		got, err := w.Samples(ctx, w.team, at(60), 10*time.Minute, 7)
		check(t, err)
		u := func(n int64) store.Use { return store.Use{Running: n, VCPUs: 2 * n, MemoryMB: 512 * n} }
		if want := []store.Use{u(0), u(1), u(1), u(2), u(2), u(1), u(1)}; !slices.Equal(got.Series, want) || got.Current != u(1) {
			t.Errorf("got %v, want %v", got, want)
		}
		got, err = w.Samples(ctx, w.team, at(120), 30*24*time.Hour, 1)
		check(t, err)
		if got.Series[0] != u(2) || got.Current != u(0) {
			t.Errorf("got %v", got)
		}
		days, err := w.Days(ctx, w.team, ten.Add(-24*time.Hour), ten, at(50))
		check(t, err)
		if len(days) != 2 || days[0].CPUMinutes != 0 || math.Abs(days[1].CPUMinutes-2*(30+30)) > 0.001 || math.Abs(days[1].MemMBMinutes-512*60) > 0.001 {
			t.Errorf("got %+v", days)
		}
	})
}

// TestUseUnderRaces checks that a change that several callers report concurrently is counted once.
func TestUseUnderRaces(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, began := t.Context(), time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
		id := w.add(t)
		for i, status := range []string{"running", "paused", "running"} {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := w.Report(ctx, id, status, began, began, began); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			got, err := w.Samples(ctx, w.team, began.Add(time.Hour), time.Hour, 1)
			if want := int64(1 - i%2); err != nil || got.Current.Running != want {
				t.Errorf("after 8 reports of %s: %+v, %v, want %d", status, got.Current, err, want)
			}
		}
	})
}

// TestUseAcrossDays checks a sandbox that runs for several days.
func TestUseAcrossDays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, began := t.Context(), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
		check(t, w.Report(ctx, w.add(t), "running", began, began, began))
		days, err := w.Days(ctx, w.team, began, began.Add(72*time.Hour), began.Add(60*time.Hour))
		check(t, err)
		var hours []float64
		for _, d := range days {
			hours = append(hours, math.Round(d.CPUMinutes/2/60))
		}
		if want := []float64{12, 24, 24, 0}; !slices.Equal(hours, want) {
			t.Errorf("got %v, want %v", hours, want)
		}
	})
}

// TestOldChangesAreFolded checks that the sums stay the same when old changes are removed.
func TestOldChangesAreFolded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, began := t.Context(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		one, two := w.add(t), w.add(t)
		for i := range 10 {
			at := began.Add(time.Duration(i) * time.Hour)
			check(t, w.Report(ctx, one, []string{"running", "paused"}[i%2], at, at, at))
		}
		check(t, w.Report(ctx, two, "running", began, began, began))
		later := began.Add(200 * 24 * time.Hour)
		check(t, w.Report(ctx, one, "running", later, later, later))
		got, err := w.Samples(ctx, w.team, later.Add(time.Minute), time.Hour, 2)
		check(t, err)
		if got.Series[0].Running != 1 || got.Series[1].Running != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestTemplateEvents checks that there is an event for each change of the list of templates.
func TestTemplateEvents(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		var ids []string
		for range 2 {
			v := store.Template{ID: store.NewID(store.TemplatePrefix), TeamID: w.team, HostID: w.host, Name: "a", SandboxID: w.add(t), CreatedAt: w.now}
			check(t, w.AddTemplate(ctx, v, true))
			check(t, w.TemplateMade(ctx, v, 7, w.now))
			check(t, w.TemplateMade(ctx, v, 7, w.now))
			ids = append(ids, v.ID)
		}
		deleted, err := w.DeleteTemplate(ctx, w.team, "a")
		check(t, err)
		check(t, w.RestoreTemplate(ctx, deleted))
		all, _, _, err := w.Events(ctx, w.team, 0, 100)
		check(t, err)
		var got []string
		for _, e := range all {
			if strings.HasPrefix(e.Type, "template.") {
				got = append(got, e.Type+" "+e.Subject+" "+e.Data["name"])
			}
		}
		want := []string{
			"template.created " + ids[0] + " a", "template.removed " + ids[0] + " a", "template.created " + ids[1] + " a",
			"template.removed " + ids[1] + " a", "template.created " + ids[1] + " a",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTemplates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		template := func(source string) store.Template {
			return store.Template{ID: store.NewID(store.TemplatePrefix), TeamID: w.team, HostID: w.host, Name: "a", SandboxID: source, DiskMB: 100, CreatedAt: w.now}
		}
		first := template(w.add(t))
		check(t, w.AddTemplate(ctx, first, false))
		_, err := w.Template(ctx, w.team, "a")
		wants(t, "a template that is not made", err, fault.NotFound)
		wants(t, "a second one while the first is made", w.AddTemplate(ctx, template(w.add(t)), true), fault.Exists)
		check(t, w.TemplateMade(ctx, first, 7, w.now))
		check(t, w.TemplateMade(ctx, first, 7, w.now))
		_, err = w.Record(ctx, first.SandboxID)
		wants(t, "the sandbox that became it", err, fault.NotFound)
		wants(t, "the same name", w.AddTemplate(ctx, template(w.add(t)), false), fault.Exists)

		n := w.newSandbox()
		n.Template, n.TemplateID = "a", first.ID
		_, _, err = w.AddSandbox(ctx, n)
		check(t, err)
		_, err = w.DeleteTemplate(ctx, w.team, "a")
		wants(t, "a template in use", err, fault.Precondition)
		second := template(w.add(t))
		check(t, w.AddTemplate(ctx, second, true))
		check(t, w.TemplateMade(ctx, second, 8, w.now))
		if got, err := w.Template(ctx, w.team, "a"); err != nil || got.ID != second.ID || got.SizeBytes != 8 {
			t.Errorf("%+v, %v", got, err)
		}
		if all, err := w.UnfinishedTemplates(ctx, w.host); err != nil || len(all) != 0 {
			t.Errorf("the replaced template is in use: %+v, %v", all, err)
		}
		check(t, w.Forget(ctx, n.ID))
		if all, err := w.UnfinishedTemplates(ctx, w.host); err != nil || len(all) != 1 || all[0].ID != first.ID {
			t.Errorf("%+v, %v", all, err)
		}
		n = w.newSandbox()
		n.Template, n.TemplateID = "a", first.ID
		_, _, err = w.AddSandbox(ctx, n)
		wants(t, "a sandbox from the replaced template", err, fault.NotFound)
		n.ParentID = second.SandboxID
		if _, _, err = w.AddSandbox(ctx, n); err != nil {
			t.Errorf("a fork of a sandbox from it: %v", err)
		}
		check(t, w.Forget(ctx, n.ID))
		_, err = w.Template(ctx, w.addTeam(t, "other", w.owner), "a")
		wants(t, "the template of another team", err, fault.NotFound)
		if u, err := w.Used(ctx, w.team, w.now); err != nil || u.DiskMB != 2*1024+200 {
			t.Errorf("%+v, %v", u, err)
		}
		_, err = w.DeleteTemplate(ctx, w.team, "a")
		check(t, err)
		check(t, w.ForgetTemplate(ctx, second.ID))
		if id := store.UUID(first.ID); len(id) != 32 || id == store.UUID(second.ID) {
			t.Errorf("%q", id)
		}
	})
}
