package workspace

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
)

// activityText returns the events of a workspace, one per line.
func activityText(t *testing.T, m *Manager, id string) string {
	t.Helper()
	w, err := m.Store.Work(t.Context(), id)
	check(t, err)
	var lines []string
	for _, e := range w.Events {
		d := e.Detail
		if e.Kind == store.EventShell {
			d.Name = "shell"
		}
		lines = append(lines, fmt.Sprintf("%s %d %s %s %s %s %s %d %d +%d -%d", e.Kind, e.Sequence, d.Path, d.Paths, filepath.Base(d.Host), d.Artifact, d.Name,
			d.Files, d.Bytes, d.LinesAdded, d.LinesRemoved))
		if e.At.Before(w.CreatedAt) {
			t.Errorf("%s happened before the workspace was", lines[len(lines)-1])
		}
	}
	return strings.Join(lines, "\n")
}

// TestActivity checks which operations are recorded as events. It also tries similar operations
// that change nothing.
func TestActivity(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := create(t, m, "old", "1\n")
	host := t.TempDir()
	check(t, os.WriteFile(filepath.Join(host, "a"), []byte("four"), 0o644))

	check(t, m.WriteFile(ctx, w.ID, "sub/new", []byte("text\n")))
	wantKind(t, "a write outside", m.WriteFile(ctx, w.ID, "../x", nil), fault.Invalid)
	_, err := m.ApplyPatch(ctx, w.ID, []byte("--- a/old\n+++ b/old\n@@ -1 +1,2 @@\n-1\n+2\n+3\n"))
	check(t, err)
	_, err = m.ApplyPatch(ctx, w.ID, []byte("--- a/old\n+++ b/old\n@@ -1 +1 @@\n-1\n+2\n"))
	wantKind(t, "a patch that does not fit", err, fault.Precondition)
	_, err = m.Push(ctx, w.ID, host, "in", false, nil)
	check(t, err)
	_, err = m.Push(ctx, w.ID, filepath.Join(host, "none"), "in", false, nil)
	wantKind(t, "a sync of nothing", err, fault.NotFound)
	out := filepath.Join(t.TempDir(), "out")
	_, err = m.Export(ctx, w.ID, "sub", out, ExportOptions{})
	check(t, err)
	_, err = m.Export(ctx, w.ID, "sub", out, ExportOptions{})
	wantKind(t, "an export to what is there", err, fault.Exists)
	shells, err := m.Shells(ctx, w.ID)
	check(t, err)
	defer shells.Close()
	opened, err := shells.Open(ctx, program.Command{TTY: &program.Terminal{Cols: 80, Rows: 24}})
	check(t, err)
	for _, name := range []string{"one", "two"} {
		_, err = m.CreateSnapshot(ctx, w.ID, name, false)
		check(t, err)
	}
	check(t, m.DeleteSnapshot(ctx, w.ID, "one"))
	wantKind(t, "again", m.DeleteSnapshot(ctx, w.ID, "one"), fault.NotFound)
	run(t, m, w.ID, "true; rm old")

	want := `export 1 /workspace/sub [] out directory  1 5 +0 -0
patch 1  [/workspace/old] .   1 0 +2 -1
shell 1 /workspace [] .  shell 0 0 +0 -0
snapshot_deleted 1  [] .  one 0 0 +0 -0
sync 1 /workspace/in [] ` + filepath.Base(host) + `   1 4 +0 -0
write 1 /workspace/sub/new [] .   1 5 +0 -0`
	if got := activityText(t, m, w.ID); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	a, err := m.Summarize(ctx, w.ID, 3)
	check(t, err)
	if a.State != Started || a.CommandCount != 1 || len(a.Shells) != 1 || a.Shells[0].ID != opened.ID || len(a.Work.Snapshots) != 1 || !a.Since.Equal(a.CreatedAt) {
		t.Errorf("%+v", a)
	}
	if c := a.Changes; c == nil || c.Summary.Added != 4 || c.Summary.Deleted != 1 || len(c.Entries) != 3 || !c.EntriesTruncated {
		t.Errorf("%+v, %s", c, a.Unknown)
	}

	forks, err := m.Fork(ctx, w.ID, "", false, 1, Spec{})
	check(t, err)
	if got := activityText(t, m, forks[0].ID); got != "" {
		t.Errorf("a fork has done %s", got)
	}
	if got := activityText(t, m, w.ID); got != want {
		t.Errorf("activity of a fork: got %s", got)
	}
	_, err = m.Stop(ctx, store.KindWorkspace, w.ID)
	check(t, err)
	a, err = m.Summarize(ctx, w.ID, 3)
	if err != nil || a.Changes != nil || a.Unknown != "it is stopped" || len(a.Work.Events) != 6 || len(a.Shells) != 0 {
		t.Errorf("stopped: %+v, %v", a, err)
	}
	_, err = m.Reset(ctx, w.ID, "two", nil)
	check(t, err)
	a, err = m.Summarize(ctx, w.ID, 100)
	if err != nil || len(a.Work.Events)+a.CommandCount != 0 || a.Changes == nil || a.Changes.Summary.Added != 4 || !a.Since.Equal(a.LastResetAt) ||
		len(a.Work.Snapshots) != 1 {
		t.Errorf("after a reset: %+v, %v", a, err)
	}
	_, err = m.Summarize(ctx, "ws-000000000000", 3)
	wantKind(t, "of none", err, fault.NotFound)
}

// TestSecretsAreNotInEvents checks that a secret in a path is redacted in events.
func TestSecretsAreNotInEvents(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	spec := onHost()
	spec.Secrets = []secret.Secret{{Name: "A", Source: secret.Literal, Value: secret.New("hunter2-hunter2")}}
	w, err := m.Create(t.Context(), spec)
	check(t, err)
	check(t, m.WriteFile(t.Context(), w.ID, "hunter2-hunter2/f", []byte("x")))
	_, err = m.ApplyPatch(t.Context(), w.ID, []byte("--- /dev/null\n+++ b/hunter2-hunter2.txt\n@@ -0,0 +1 @@\n+x\n"))
	check(t, err)
	run(t, m, w.ID, "ln -s hunter2-hunter2 link")
	a, err := m.Summarize(t.Context(), w.ID, 100)
	if text := fmt.Sprintf("%+v %+v", a.Work, a.Changes); err != nil || strings.Contains(text, "hunter2-") || strings.Count(text, "[REDACTED]") != 7 {
		t.Errorf("%s, %v", text, err)
	}
	for _, name := range []string{"state.db", "state.db-wal"} {
		if text, err := os.ReadFile(filepath.Join(m.Dirs.State, name)); err != nil || strings.Contains(string(text), "hunter2-") {
			t.Errorf("%s has it, or %v", name, err)
		}
	}
}

// TestCancelledOperationIsRecorded checks that an event is recorded although the operation's
// context is cancelled. It also checks that an operation succeeds if its event can't be recorded.
func TestCancelledOperationIsRecorded(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.addEvent(ctx, w.Workspace, w.CreatedAt, store.EventWrite, store.Detail{Path: "/workspace/f"})
	if got := activityText(t, m, w.ID); !strings.HasPrefix(got, "write 1 /workspace/f ") {
		t.Errorf("activity after its caller gave up: got %q", got)
	}
	db, err := sql.Open("sqlite", m.Store.Path())
	check(t, err)
	defer db.Close()
	_, err = db.Exec("DROP TABLE events")
	check(t, err)
	check(t, m.WriteFile(t.Context(), w.ID, "f", []byte("written")))
	wantFile(t, m, w.ID, "f", "written")
}
