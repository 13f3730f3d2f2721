package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_WRITER"); dir != "" {
		write(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s := Open(dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var born = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func sample(id string) Workspace {
	return Workspace{
		ID: id, Kind: KindWorkspace, Name: "fix", Labels: map[string]string{"ticket": "42"}, CreatedAt: born, LastActivityAt: born, ExpiresAt: born.Add(time.Minute), Starts: 1,
		Spec: Spec{Environment: "debian:12", Digest: "sha256:0", Env: []string{"A=b"}, Isolation: "gvisor", VCPUCount: 1, MemMiB: 1024, TTLSeconds: 60, Network: "off",
			Seed: Seed{Mode: "directory", Path: "/src", Files: 3, Bytes: 12}},
		Disks: Disks{Volume: []string{"a", "b"}, Root: []string{"r"}, Baseline: []string{"a"}, FreshUntil: 7},
	}
}

func TestAddWorkspace(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	want := sample("ws-1")
	if err := s.AddWorkspace(ctx, want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Workspace(ctx, "ws-1")
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v\n%v", got, want, err)
	}
	if err := s.AddWorkspace(ctx, want); err == nil {
		t.Error("a duplicate id was accepted")
	}
	if _, err := s.Workspace(ctx, "ws-2"); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) == "" {
		t.Errorf("missing workspace: got %v", err)
	}
}

func TestWorkspaceOrder(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	for i, id := range []string{"ws-a", "ws-b", "ws-c"} {
		w := sample(id)
		w.LastActivityAt = born.Add(time.Duration(i) * time.Second)
		if err := s.AddWorkspace(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	vm := sample("vm-a")
	vm.Kind = KindVM
	if err := errors.Join(s.AddWorkspace(ctx, vm), s.Active(ctx, "ws-a", born.Add(time.Hour), born.Add(2*time.Hour)), s.Active(ctx, "ws-a", born, born)); err != nil {
		t.Fatal(err)
	}
	all, err := s.Workspaces(ctx, KindWorkspace)
	var ids []string
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	if want := []string{"ws-a", "ws-c", "ws-b"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v", ids, err)
	}
	if !all[0].ExpiresAt.Equal(born.Add(2 * time.Hour)) {
		t.Errorf("an older activity counted: %v", all[0].ExpiresAt)
	}
	if digests, err := s.Digests(ctx); err != nil || !digests["sha256:0"] || len(digests) != 1 {
		t.Errorf("%v, %v", digests, err)
	}
}

func TestHistory(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	if err := s.AddWorkspace(ctx, sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		c := Command{Argv: []string{"echo", strconv.Itoa(n)}, Cwd: "/workspace", StartedAt: born.Add(time.Duration(n))}
		var err error
		if c.Sequence, err = s.Begin(ctx, "ws-1", c); err != nil || c.Sequence != n {
			t.Fatal(c.Sequence, err)
		}
		if n == 2 {
			continue // the machine ended before this command
		}
		c.EndedAt, c.Result, c.Stdout = born.Add(time.Hour), Result{Exit: program.Exit{Code: n}}, []byte{'\xff', byte(n)}
		if err := s.End(ctx, "ws-1", c, born.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Commands(ctx, "ws-1")
	if err != nil || len(all) != 3 || all[2].Result.Code != 3 || string(all[2].Stdout) != "\xff\x03" || all[2].Argv[1] != "3" {
		t.Fatalf("%+v, %v", all, err)
	}
	if !all[1].EndedAt.IsZero() || !all[0].EndedAt.Equal(born.Add(time.Hour)) {
		t.Errorf("ends: %v, %v", all[0].EndedAt, all[1].EndedAt)
	}
	for _, test := range []struct {
		last   int
		others []int
		want   []int
	}{{0, nil, []int{1, 2, 3}}, {2, nil, []int{3}}, {3, []int{2}, []int{2}}, {2, []int{1, 3, 9}, []int{1, 3}}, {3, nil, nil}} {
		var got []int
		some, err := s.CommandsAfter(ctx, "ws-1", test.last, test.others)
		for _, c := range some {
			got = append(got, c.Sequence)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("after %d, and %v: %v, %v", test.last, test.others, got, err)
		}
	}
	w, err := s.Workspace(ctx, "ws-1")
	if err != nil || w.CommandCount != 3 || !w.LastActivityAt.Equal(born.Add(time.Hour)) {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := s.Begin(ctx, "ws-2", Command{Argv: []string{"true"}}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("missing workspace: got %v", err)
	}

	if err := s.Reset(ctx, "ws-1", Disks{Volume: []string{"c"}}, born.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	first, err := s.Begin(ctx, "ws-1", Command{Argv: []string{"true"}, StartedAt: born.Add(4 * time.Hour)})
	if err != nil || first != 1 {
		t.Errorf("after a reset the first is %d, %v", first, err)
	}
	late := Command{Sequence: 1, StartedAt: born.Add(1), EndedAt: born.Add(5 * time.Hour), Result: Result{Exit: program.Exit{Code: 9}}}
	if err := s.End(ctx, "ws-1", late, born); err != nil {
		t.Fatal(err)
	}
	if all, _ := s.Commands(ctx, "ws-1"); len(all) != 1 || all[0].Result.Code == 9 {
		t.Errorf("a late end was recorded for another command: %+v", all)
	}
	if w, _ := s.Workspace(ctx, "ws-1"); w.ResetCount != 1 || !w.LastResetAt.Equal(born.Add(3*time.Hour)) || w.Disks.Volume[0] != "c" {
		t.Errorf("%+v", w)
	}
}

// TestMuchOutput checks that only the oldest output is dropped when a history exceeds HistoryBytes.
func TestMuchOutput(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	if err := s.AddWorkspace(ctx, sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	const kept = HistoryBytes / OutputBytes
	last := (kept/pruneEvery + 1) * pruneEvery
	output := bytes.Repeat([]byte{'x'}, OutputBytes)
	for n := 1; n <= last; n++ {
		c := Command{Argv: []string{"cat"}, Cwd: "/workspace", StartedAt: born.Add(time.Duration(n))}
		var err error
		if c.Sequence, err = s.Begin(ctx, "ws-1", c); err != nil {
			t.Fatal(err)
		}
		c.EndedAt, c.Result, c.Stdout, c.Stderr = born.Add(time.Hour), Result{StdoutBytes: OutputBytes, StderrBytes: 1}, output, []byte("e")
		if err := s.End(ctx, "ws-1", c, born.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Commands(ctx, "ws-1")
	if err != nil || len(all) != last {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	for i, c := range all {
		want := output
		if i < last-kept+1 { // one less than would fit, because stderr needs space too
			want = []byte(Dropped)
		}
		if !bytes.Equal(c.Stdout, want) || string(c.Stderr) != "e" || c.Result.StdoutBytes != OutputBytes || c.EndedAt.IsZero() {
			t.Fatalf("command %d of %d: %.40q, %q, %+v", c.Sequence, last, c.Stdout, c.Stderr, c.Result)
		}
	}
}

func TestSnapshots(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	if err := s.AddWorkspace(ctx, sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	one := Snapshot{Name: "one", Disks: Disks{Volume: []string{"a", "b"}}, Whole: true, SizeBytes: 5, CreatedAt: born}
	if err := s.AddSnapshot(ctx, "ws-1", one, Disks{Volume: []string{"a", "b", "c"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddSnapshot(ctx, "ws-1", one, Disks{Volume: []string{"lost"}}); fault.KindOf(err) != fault.Exists {
		t.Errorf("a second of the same name: %v", err)
	}
	if w, _ := s.Workspace(ctx, "ws-1"); len(w.Disks.Volume) != 3 {
		t.Errorf("a failed change changed the disks: %+v", w.Disks)
	}
	got, err := s.Snapshot(ctx, "ws-1", "one")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(one) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.DeleteSnapshot(ctx, "ws-1", "two"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if err := s.Delete(ctx, "ws-1"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Snapshots(ctx, "ws-1"); err != nil || len(all) != 0 {
		t.Errorf("snapshots outlive their workspace: %v, %v", all, err)
	}
	if err := s.Delete(ctx, "ws-1"); err != nil {
		t.Error("second deletion:", err)
	}
}

func TestNamesAndLabels(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	if err := s.AddWorkspace(ctx, sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	err := s.Update(ctx, "ws-1", func(w *Workspace) error {
		w.Name = "other"
		delete(w.Labels, "ticket")
		w.Labels["a"] = "b"
		w.Spec.MemMiB = 4096
		return nil
	})
	if w, _ := s.Workspace(ctx, "ws-1"); err != nil || w.Name != "other" || fmt.Sprint(w.Labels) != "map[a:b]" || w.Spec.MemMiB != 4096 {
		t.Errorf("%+v, %v", w, err)
	}
	no := errors.New("no")
	if err := s.Update(ctx, "ws-1", func(w *Workspace) error { w.Name = "x"; return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if w, _ := s.Workspace(ctx, "ws-1"); w.Name != "other" {
		t.Error("a refused change was stored")
	}
}

// TestShapeOfTheMachine checks that the shape of a machine is known until the next machine boots.
func TestShapeOfTheMachine(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	if err := s.AddWorkspace(ctx, sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	small := Shape{VCPUCount: 1, MemMiB: 512, Networked: true}
	err := s.Update(ctx, "ws-1", func(w *Workspace) error {
		w.Spec.VCPUCount, w.Spec.MemMiB, w.Spec.Network, w.Spec.Machine = 4, 2048, NetworkOff, &small
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspace(ctx, "ws-1")
	if err != nil || w.Spec.CurrentShape() != small || w.Spec.Shape() != (Shape{4, 2048, false}) {
		t.Errorf("after an update: %+v, %v", w.Spec, err)
	}
	before := w.Spec
	if err := s.Started(ctx, "ws-1", born, born); err != nil {
		t.Fatal(err)
	}
	before.Machine = nil
	if w, err = s.Workspace(ctx, "ws-1"); err != nil || !reflect.DeepEqual(w.Spec, before) {
		t.Errorf("after a start: %+v, %v, not %+v", w.Spec, err, before)
	}
}

// write adds workspaces, commands and events until TestManyProcesses kills its process.
func write(dir string) {
	s := Open(dir)
	for n := 0; ; n++ {
		id := fmt.Sprintf("ws-%d-%d", os.Getpid(), n)
		if err := s.AddWorkspace(context.Background(), sample(id)); err != nil {
			fmt.Println("failed:", err)
			return
		}
		if _, err := s.Begin(context.Background(), id, Command{Argv: []string{"true"}, StartedAt: born}); err != nil {
			fmt.Println("failed:", err)
			return
		}
		if err := s.AddEvent(context.Background(), id, Event{Kind: EventWrite, At: born}, born); err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println(id)
	}
}

// TestManyProcesses runs processes that create the database and write at the same time, and kills
// them. Everything that they reported as done is stored.
func TestManyProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var said [4][]string
	var all sync.WaitGroup
	for i := range said {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			lines := bufio.NewReader(out)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					break
				}
				if said[i] = append(said[i], strings.TrimSpace(line)); len(said[i]) == 2 {
					time.AfterFunc(time.Duration(500+137*i)*time.Millisecond, func() { cmd.Process.Kill() })
				}
			}
			cmd.Wait()
		})
	}
	all.Wait()
	s, reported := open(t, dir), 0
	for i := range said {
		for _, id := range said[i] {
			if reported++; strings.HasPrefix(id, "failed") {
				t.Error(id)
			} else if w, err := s.Work(t.Context(), id); err != nil || w.CommandCount != 1 || len(w.Events) != 1 {
				t.Errorf("%s is lost: %+v, %v", id, w, err)
			}
		}
	}
	if reported < 8 {
		t.Errorf("%d written", reported)
	}
}

func TestLaterSchema(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	if _, err := s.Workspaces(t.Context(), KindWorkspace); err != nil {
		t.Fatal(err)
	}
	s.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 1000"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, err := open(t, dir).Workspaces(t.Context(), KindWorkspace); fault.KindOf(err) != fault.Unsupported || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestDamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Workspaces(t.Context(), KindWorkspace); fault.KindOf(err) != fault.Corrupt || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestFileModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	if err := s.AddWorkspace(t.Context(), sample("ws-1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestClose(t *testing.T) {
	s := Open(t.TempDir())
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Workspaces(t.Context(), KindWorkspace); err == nil {
		t.Error("a closed store was used")
	}
}

// TestTemplateIsImmutable checks that a template is no longer found as a workspace, and that a
// running supervisor can't change the template's disks.
func TestTemplateIsImmutable(t *testing.T) {
	s := Open(t.TempDir())
	defer s.Close()
	ctx := t.Context()
	w := Workspace{ID: "ws-1", Kind: KindWorkspace, Name: "n", Spec: Spec{Digest: "one"}, Disks: Disks{Volume: []string{"v"}}, CreatedAt: time.Now(), ExpiresAt: time.Now()}
	if err := s.AddWorkspace(ctx, w); err != nil {
		t.Fatal(err)
	}
	if err := s.MakeTemplate(ctx, "ws-1", map[string]string{"a": "b"}, Spec{Digest: "two"}, Disks{Volume: []string{"flat"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetDisks(ctx, "ws-1", w.Disks); fault.KindOf(err) != fault.NotFound {
		t.Errorf("its disks are changed: %v", err)
	}
	if err := s.MakeTemplate(ctx, "ws-1", nil, Spec{}, Disks{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it becomes one again: %v", err)
	}
	all, err := s.Workspaces(ctx, KindTemplate)
	if err != nil || len(all) != 1 || all[0].Disks.Volume[0] != "flat" || all[0].Spec.Digest != "two" || all[0].Labels["a"] != "b" || all[0].Name != "" || !all[0].ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if rest, err := s.Workspaces(ctx, KindWorkspace); err != nil || len(rest) != 0 {
		t.Errorf("%+v, %v", rest, err)
	}
	if digests, err := s.Digests(ctx); err != nil || !digests["two"] || digests["one"] {
		t.Errorf("%v, %v", digests, err)
	}
}
