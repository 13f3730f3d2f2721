package store

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// work returns the Work of ws-1.
func work(t *testing.T, s *Store) Work {
	t.Helper()
	w, err := s.Work(t.Context(), "ws-1")
	check(t, err)
	return w
}

func TestEvents(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	check(t, s.AddWorkspace(ctx, sample("ws-1")))
	check(t, s.AddWorkspace(ctx, sample("ws-2")))
	const written = 2*MaxEvents + 3
	for n := 1; n <= written; n++ {
		check(t, s.AddEvent(ctx, "ws-1", Event{Kind: EventWrite, At: born.Add(time.Duration(n)), Detail: Detail{Path: fmt.Sprint(n), Files: 1, Bytes: int64(n)}}, born))
	}
	long := strings.Repeat("ö", MaxEventText)
	check(t, s.AddEvent(ctx, "ws-1", Event{Kind: EventPatch, At: born, Detail: Detail{Path: "\xff", Host: long, Paths: make([]string, 2*MaxEventPaths), LinesAdded: 3}}, born))
	check(t, s.AddEvent(ctx, "ws-3", Event{Kind: EventPatch, At: born}, born)) // this workspace does not exist

	events := work(t, s).Events
	if len(events) != 1+MaxEvents {
		t.Fatalf("%d events", len(events))
	}
	if p := events[0]; p.Kind != EventPatch || p.Sequence != 1 || len(p.Detail.Host) > MaxEventText || !strings.HasSuffix(p.Detail.Host, "ö…") ||
		len(p.Detail.Paths) != MaxEventPaths || p.Detail.LinesAdded != 3 || !p.At.Equal(born) {
		t.Errorf("%+v", p)
	}
	for i, e := range events[1:] {
		n := written - MaxEvents + 1 + i
		want := Event{EventWrite, n, born.Add(time.Duration(n)), Detail{Path: fmt.Sprint(n), Files: 1, Bytes: int64(n)}}
		if fmt.Sprint(e) != fmt.Sprint(want) {
			t.Errorf("event %d: %+v", n, e)
		}
	}

	reset := born.Add(time.Hour)
	check(t, s.Reset(ctx, "ws-1", Disks{}, reset))
	check(t, s.AddEvent(ctx, "ws-1", Event{Kind: EventWrite, At: reset.Add(1)}, reset.Add(-1)))
	if left := work(t, s).Events; len(left) != 0 {
		t.Errorf("events after a reset: got %+v, want none", left)
	}
	check(t, s.AddEvent(ctx, "ws-1", Event{Kind: EventWrite, At: reset.Add(2)}, reset.Add(1)))
	if all := work(t, s).Events; len(all) != 1 || all[0].Sequence != 1 {
		t.Errorf("after it: %+v", all)
	}
	check(t, s.Delete(ctx, "ws-1"))
	check(t, s.AddWorkspace(ctx, sample("ws-1")))
	if left := work(t, s).Events; len(left) != 0 {
		t.Errorf("events outlive their workspace: %+v", left)
	}
}

func TestWork(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	check(t, s.AddWorkspace(ctx, sample("ws-1")))
	for n := 1; n <= RecentCommands+5; n++ {
		c := Command{Argv: []string{"exit", fmt.Sprint(n % 2)}, Cwd: "/workspace", StartedAt: born.Add(time.Duration(n))}
		var err error
		c.Sequence, err = s.Begin(ctx, "ws-1", c)
		check(t, err)
		if n == RecentCommands+5 {
			break // this command still runs
		}
		c.EndedAt, c.Stdout = born.Add(time.Hour), []byte("output")
		c.Result = Result{Exit: program.Exit{Code: n % 2, TimedOut: n == 2}}
		check(t, s.End(ctx, "ws-1", c, born))
	}
	check(t, s.PutService(ctx, "ws-1", Service{Name: "web", StartedAt: born}))
	check(t, s.AddSnapshot(ctx, "ws-1", Snapshot{Name: "one", CreatedAt: born}, Disks{}))
	check(t, s.AddSnapshot(ctx, "ws-1", Snapshot{Name: "two", CreatedAt: born}, Disks{}))
	gone := Event{Kind: EventSnapshotDeleted, At: born.Add(1), Detail: Detail{Name: "one"}}
	check(t, s.DeleteSnapshot(ctx, "ws-1", "one", gone))
	if err := s.DeleteSnapshot(ctx, "ws-1", "one", gone); fault.KindOf(err) != fault.NotFound {
		t.Errorf("again: %v", err)
	}

	w := work(t, s)
	if w.ID != "ws-1" || w.CommandCount != RecentCommands+5 || w.FailedCount != 1+(RecentCommands+4)/2 || len(w.Commands) != RecentCommands {
		t.Errorf("got %d commands, %d failed, %d listed", w.CommandCount, w.FailedCount, len(w.Commands))
	}
	for i, c := range w.Commands {
		if c.Sequence != 6+i || len(c.Stdout) > 0 || c.Argv[1] != fmt.Sprint(c.Sequence%2) || c.Result.Code != c.Sequence%2 && !c.EndedAt.IsZero() {
			t.Errorf("command %d: %+v", 6+i, c)
		}
	}
	if len(w.Services) != 1 || w.Services[0].Name != "web" || len(w.Snapshots) != 1 || w.Snapshots[0].Name != "two" {
		t.Errorf("%+v, %+v", w.Services, w.Snapshots)
	}
	if len(w.Events) != 1 || w.Events[0].Detail.Name != "one" {
		t.Errorf("%+v", w.Events)
	}
	if _, err := s.Work(ctx, "ws-2"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("missing workspace: got %v", err)
	}
}

// TestMigration opens databases that earlier versions created.
func TestMigration(t *testing.T) {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	check(t, err)
	for before := 1; before < len(steps); before++ {
		dir := t.TempDir()
		db, err := sql.Open("sqlite", filepath.Join(dir, file))
		check(t, err)
		for _, step := range steps[:before] {
			text, err := migrations.ReadFile(step)
			check(t, err)
			_, err = db.Exec(string(text))
			check(t, err)
		}
		w := sample("ws-1")
		_, err = db.Exec("INSERT INTO workspaces (id, kind, name, spec, disks, created_at, last_activity_at) VALUES ($1, $2, $3, $4, $5, $6, $6)",
			w.ID, w.Kind, w.Name, text(w.Spec), text(w.Disks), nanos(born))
		check(t, err)
		_, err = db.Exec(fmt.Sprintf("PRAGMA user_version = %d", before))
		check(t, err)
		check(t, db.Close())

		s := open(t, dir)
		check(t, s.AddEvent(t.Context(), "ws-1", Event{Kind: EventWrite, At: born}, born))
		if w := work(t, s); w.Name != "fix" || len(w.Events) != 1 || !w.CreatedAt.Equal(born) {
			t.Errorf("form %d: %+v", before, w)
		}
	}
}
