package pyro

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// withWorkspaces returns a Pyro with temporary folders. At the end of the test, it deletes
// workspaces and machines, and checks that no folder, process or goroutine is left.
func withWorkspaces(t *testing.T) *Pyro {
	t.Helper()
	before := goleak.IgnoreCurrent()
	state := t.TempDir()
	p, err := New(Options{CacheDir: t.TempDir(), StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, kind := range []store.Kind{store.KindWorkspace, store.KindVM} {
			all, err := p.workspaces.List(context.Background(), kind)
			if err != nil {
				t.Error(err)
			}
			var deleting sync.WaitGroup
			for _, w := range all {
				deleting.Go(func() {
					if err := p.workspaces.Delete(context.Background(), kind, w.ID); err != nil {
						t.Error(err)
					}
				})
			}
			deleting.Wait()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
		if left, err := os.ReadDir(p.workspaces.Dirs.Workspaces()); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			t.Errorf("leftovers of workspaces: %v, %v", left, err)
		}
		for wait := time.Now().Add(testenv.Patience); ; time.Sleep(20 * time.Millisecond) {
			left := processesIn(t, state)
			if len(left) == 0 {
				return
			}
			if time.Now().After(wait) {
				t.Errorf("leftover processes: %q", left)
				return
			}
		}
	})
	return p
}

// processesIn returns the command lines of processes that use a folder.
func processesIn(t *testing.T, folder string) (found []string) {
	t.Helper()
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	working, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range append(open, working...) {
		pid := strings.Split(link, "/")[2]
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, folder+"/") && pid != strconv.Itoa(os.Getpid()) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			found = append(found, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return slices.Compact(found)
}

func (p *Pyro) create(t *testing.T, change func(*CreateWorkspaceRequest)) string {
	t.Helper()
	req := CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true}
	if change != nil {
		change(&req)
	}
	w, err := p.CreateWorkspace(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return w.WorkspaceID
}

// operationsOn returns all operations on a workspace and on a machine. Their arguments are valid,
// except for the id.
func operationsOn(t *testing.T, p *Pyro, id string) (workspace, vm map[string]func() error) {
	ctx, name, source := t.Context(), "n", t.TempDir()
	output := filepath.Join(source, "out")
	return map[string]func() error{
			"StatusWorkspace": func() error { return only(p.StatusWorkspace(ctx, id)) },
			"StatsWorkspaces": func() error { return only(p.StatsWorkspaces(ctx, StatsWorkspacesRequest{WorkspaceIDs: []string{id}})) },
			"FollowStats": func() error {
				for _, err := range p.FollowStats(ctx, StatsWorkspacesRequest{WorkspaceIDs: []string{id}}) {
					return err
				}
				return nil
			},
			"Workspace": func() error { return only(p.Workspace(ctx, id)) },
			"UpdateWorkspace": func() error {
				return only(p.UpdateWorkspace(ctx, UpdateWorkspaceRequest{WorkspaceID: id, Name: &name}))
			},
			"StartWorkspace": func() error { return only(p.StartWorkspace(ctx, StartWorkspaceRequest{WorkspaceID: id})) },
			"StopWorkspace":  func() error { return only(p.StopWorkspace(ctx, id)) },
			"ResetWorkspace": func() error { return only(p.ResetWorkspace(ctx, ResetWorkspaceRequest{WorkspaceID: id})) },
			"CopyToWorkspace": func() error {
				return only(p.CopyToWorkspace(ctx, CopyToWorkspaceRequest{WorkspaceID: id, SourcePath: t.TempDir(), Dest: "copy"}))
			},
			"CopyFromWorkspace": func() error {
				return only(p.CopyFromWorkspace(ctx, CopyFromWorkspaceRequest{WorkspaceID: id, Path: "f", OutputPath: t.TempDir() + "/copy"}))
			},
			"CommitWorkspace": func() error {
				return only(p.CommitWorkspace(ctx, CommitWorkspaceRequest{WorkspaceID: id, Name: "tool"}))
			},
			"ForkWorkspace":      func() error { return only(p.ForkWorkspace(ctx, ForkWorkspaceRequest{WorkspaceID: id})) },
			"DeleteWorkspace":    func() error { return only(p.DeleteWorkspace(ctx, id)) },
			"LogsWorkspace":      func() error { return only(p.LogsWorkspace(ctx, id)) },
			"SummarizeWorkspace": func() error { return only(p.SummarizeWorkspace(ctx, id)) },
			"CreateSnapshot": func() error {
				return only(p.CreateSnapshot(ctx, CreateSnapshotRequest{WorkspaceID: id, SnapshotName: "s"}))
			},
			"ListSnapshots":     func() error { return only(p.ListSnapshots(ctx, id)) },
			"DeleteSnapshot":    func() error { return only(p.DeleteSnapshot(ctx, id, "s")) },
			"ListWorkspaceDisk": func() error { return only(p.ListWorkspaceDisk(ctx, ListWorkspaceDiskRequest{WorkspaceID: id})) },
			"ReadWorkspaceDisk": func() error {
				return only(p.ReadWorkspaceDisk(ctx, ReadWorkspaceDiskRequest{WorkspaceID: id, Path: "f"}))
			},
			"ExportWorkspaceDisk": func() error {
				return only(p.ExportWorkspaceDisk(ctx, ExportWorkspaceDiskRequest{WorkspaceID: id, OutputPath: output}))
			},
			"ExecWorkspace": func() error {
				return only(p.ExecWorkspace(ctx, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"true"}}))
			},
			"StartCommand": func() error {
				return only(p.StartCommand(ctx, StartCommandRequest{WorkspaceID: id, Argv: []string{"true"}}))
			},
			"ListCommands":       func() error { return only(p.ListCommands(ctx, id)) },
			"ReadCommand":        func() error { return only(p.ReadCommand(ctx, ReadCommandRequest{WorkspaceID: id, Sequence: 1})) },
			"FollowCommand":      func() error { return only(p.FollowCommand(ctx, FollowCommandRequest{WorkspaceID: id, Sequence: 1})) },
			"WaitCommand":        func() error { return only(p.WaitCommand(ctx, WaitCommandRequest{WorkspaceID: id, Sequence: 1})) },
			"KillCommand":        func() error { return only(p.KillCommand(ctx, KillCommandRequest{WorkspaceID: id, Sequence: 1})) },
			"ListWorkspaceFiles": func() error { return only(p.ListWorkspaceFiles(ctx, ListWorkspaceFilesRequest{WorkspaceID: id})) },
			"ReadWorkspaceFile": func() error {
				return only(p.ReadWorkspaceFile(ctx, ReadWorkspaceFileRequest{WorkspaceID: id, Path: "f"}))
			},
			"WriteWorkspaceFile": func() error {
				return only(p.WriteWorkspaceFile(ctx, WriteWorkspaceFileRequest{WorkspaceID: id, Path: "f"}))
			},
			"PushWorkspaceSync": func() error {
				return only(p.PushWorkspaceSync(ctx, PushWorkspaceSyncRequest{WorkspaceID: id, SourcePath: source}))
			},
			"ExportWorkspace": func() error {
				return only(p.ExportWorkspace(ctx, ExportWorkspaceRequest{WorkspaceID: id, Path: "f", OutputPath: output}))
			},
			"ApplyWorkspacePatch": func() error {
				return only(p.ApplyWorkspacePatch(ctx, ApplyWorkspacePatchRequest{WorkspaceID: id, Patch: "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+f\n"}))
			},
			"DiffWorkspace":  func() error { return only(p.DiffWorkspace(ctx, DiffWorkspaceRequest{WorkspaceID: id})) },
			"PauseWorkspace": func() error { return only(p.PauseWorkspace(ctx, id)) },
			"ResumeWorkspace": func() error {
				return only(p.ResumeWorkspace(ctx, ResumeWorkspaceRequest{WorkspaceID: id}))
			},
			"StartService": func() error {
				return only(p.StartService(ctx, StartServiceRequest{WorkspaceID: id, ServiceName: "s", Argv: []string{"true"}}))
			},
			"NetworkLog":    func() error { return only(p.NetworkLog(ctx, NetworkLogRequest{WorkspaceID: id})) },
			"ListServices":  func() error { return only(p.ListServices(ctx, id)) },
			"StatusService": func() error { return only(p.StatusService(ctx, id, "s")) },
			"LogsService":   func() error { return only(p.LogsService(ctx, LogsServiceRequest{WorkspaceID: id, ServiceName: "s"})) },
			"StopService":   func() error { return only(p.StopService(ctx, id, "s")) },
			"OpenShell":     func() error { return only(p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id})) },
			"ListShells":    func() error { return only(p.ListShells(ctx, id)) },
			"ReadShell":     func() error { return only(p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: "sh-0"})) },
			"WriteShell":    func() error { return only(p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: "sh-0"})) },
			"SignalShell":   func() error { return only(p.SignalShell(ctx, SignalShellRequest{WorkspaceID: id, ShellID: "sh-0"})) },
			"ResizeShell": func() error {
				return only(p.ResizeShell(ctx, ResizeShellRequest{WorkspaceID: id, ShellID: "sh-0", Cols: 1, Rows: 1}))
			},
			"ForwardPorts": func() error {
				return p.ForwardPorts(ctx, ForwardPortsRequest{WorkspaceID: id, Ports: []PublishedPort{{GuestPort: 1}}})
			},
			"PublishService": func() error {
				return only(p.PublishService(ctx, PublishServiceRequest{WorkspaceID: id, ServiceName: "s", PublishedPorts: []PublishedPort{{GuestPort: 1}}}))
			},
			"UnpublishService": func() error {
				return only(p.UnpublishService(ctx, UnpublishServiceRequest{WorkspaceID: id, ServiceName: "s", GuestPorts: []int{1}}))
			},
			"FollowLogs": func() error {
				return only(p.FollowLogs(ctx, FollowLogsRequest{WorkspaceID: id, Entry: func(CommandEntry) error { return nil }}))
			},
			"FollowService": func() error {
				return only(p.FollowService(ctx, FollowServiceRequest{WorkspaceID: id, ServiceName: "none"}))
			},
			"PullWorkspaceSync": func() error {
				return only(p.PullWorkspaceSync(ctx, PullWorkspaceSyncRequest{WorkspaceID: id, HostPath: t.TempDir()}))
			},
			"CloseShell":  func() error { return only(p.CloseShell(ctx, id, "sh-0")) },
			"AttachShell": func() error { return only(p.AttachShell(ctx, AttachShellRequest{WorkspaceID: id, ShellID: "sh-0"})) },
		}, map[string]func() error{
			"StartVM":       func() error { return only(p.StartVM(ctx, id)) },
			"ExecVM":        func() error { return only(p.ExecVM(ctx, ExecVMRequest{VMID: id, Argv: []string{"true"}})) },
			"StopVM":        func() error { return only(p.StopVM(ctx, id)) },
			"DeleteVM":      func() error { return only(p.DeleteVM(ctx, id)) },
			"StatusVM":      func() error { return only(p.StatusVM(ctx, id)) },
			"NetworkInfoVM": func() error { return only(p.NetworkInfoVM(ctx, id)) },
		}
}

// TestEveryOperationAcceptsNames checks that an ambiguous name is the cause of each error, so that
// the operation looks names up.
func TestEveryOperationAcceptsNames(t *testing.T) {
	p := withWorkspaces(t)
	for range 2 {
		p.create(t, func(r *CreateWorkspaceRequest) { r.Name = "twin" })
	}
	all, _ := operationsOn(t, p, "twin")
	for name, call := range all {
		if err := call(); KindOf(err) != Precondition || !strings.Contains(err.Error(), "2 workspaces have this name") {
			t.Errorf("%s: %s: %v", name, KindOf(err), err)
		}
	}
}

func TestUnknownIDs(t *testing.T) {
	p := withWorkspaces(t)
	vm, err := p.CreateVM(t.Context(), CreateVMRequest{Environment: "debian:12", AllowHostCompat: true})
	if err != nil {
		t.Fatal(err)
	}
	w := p.create(t, nil)
	for _, id := range []string{"ws-000000000000", "../../etc", "ws-\x00", strings.Repeat("a", 64), vm.VMID, w} {
		onWorkspace, onVM := operationsOn(t, p, id)
		for m := range reflect.TypeFor[*Pyro]().Methods() {
			switch m.Name {
			case "Close", "RunInVM", "Doctor", "HostNetworkSettings", "CreateWorkspace", "ListWorkspaces", "CreateVM", "ReapExpired",
				"Environments", "Workspaces", "ListEnvironments", "InspectEnvironment", "PullEnvironment", "PruneEnvironments", "PrepareEnvironment",
				"BuildEnvironment", "PushEnvironment", "SaveEnvironment", "LoadEnvironment":
				continue // these operations do not concern a single workspace or machine
			}
			call := onWorkspace[m.Name]
			if call == nil {
				call = onVM[m.Name]
			}
			if call == nil {
				t.Fatalf("%s is not tested", m.Name)
			}
			if _, isVM := onVM[m.Name]; isVM && id == vm.VMID || !isVM && id == w {
				continue
			}
			if err := call(); KindOf(err) != NotFound {
				t.Errorf("%s of %.20q: %s: %v", m.Name, id, KindOf(err), err)
			}
		}
	}
	if all, err := p.ListWorkspaces(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if now, err := p.StatusVM(t.Context(), vm.VMID); err != nil || now.State != StateCreated {
		t.Errorf("the machine is %+v, %v", now, err)
	}
}

func TestStoppedWorkspaceOperations(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	if w, err := p.StopWorkspace(t.Context(), id); err != nil || w.State != StateStopped || w.ExpiresAt != nil || w.StateReason == "" {
		t.Fatalf("%+v, %v", w, err)
	}
	all, _ := operationsOn(t, p, id)
	for _, name := range []string{
		"ExecWorkspace", "ListWorkspaceFiles", "ReadWorkspaceFile", "WriteWorkspaceFile", "PushWorkspaceSync", "ExportWorkspace", "ApplyWorkspacePatch", "DiffWorkspace",
		"OpenShell", "ListShells", "ReadShell", "WriteShell", "SignalShell", "ResizeShell", "CloseShell", "AttachShell", "StartService",
	} {
		if err := all[name](); KindOf(err) != Precondition || HintOf(err) != "pyro workspace start "+id {
			t.Errorf("%s: %s: %v, hint %q", name, KindOf(err), err, HintOf(err))
		}
	}
	for _, name := range []string{"ListWorkspaceDisk", "ReadWorkspaceDisk", "ExportWorkspaceDisk"} {
		if err := all[name](); KindOf(err) != Unsupported || !strings.Contains(err.Error(), "host_compat") {
			t.Errorf("%s: %s: %v", name, KindOf(err), err)
		}
	}
	for _, name := range []string{
		"StatusWorkspace", "UpdateWorkspace", "StopWorkspace", "LogsWorkspace", "SummarizeWorkspace", "NetworkLog", "CreateSnapshot", "ListSnapshots", "DeleteSnapshot",
		"StartWorkspace", "StartWorkspace", "StopWorkspace", "DeleteWorkspace",
	} {
		if err := all[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUpdateChangesOnlyNameAndLabels(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, func(r *CreateWorkspaceRequest) { r.Name, r.Labels = "first", map[string]string{"a": "1", "b": "2"} })
	before, err := p.StatusWorkspace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	name := "second"
	after, err := p.UpdateWorkspace(t.Context(), UpdateWorkspaceRequest{
		WorkspaceID: id, Name: &name, Labels: map[string]string{"b": "3", "c": ""}, ClearLabels: []string{"a", "never there"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := *before
	want.Name, want.Labels = "second", map[string]string{"b": "3", "c": ""}
	want.LastActivityAt, want.ExpiresAt = after.LastActivityAt, after.ExpiresAt // the supervisor can update these fields at any time
	if !reflect.DeepEqual(*after, want) {
		t.Errorf("%+v, want %+v", after, want)
	}
	if after, err = p.UpdateWorkspace(t.Context(), UpdateWorkspaceRequest{WorkspaceID: id, ClearName: true}); err != nil || after.Name != "" || len(after.Labels) != 2 {
		t.Errorf("%+v, %v", after, err)
	}
}

func TestForkCount(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, func(r *CreateWorkspaceRequest) { r.TTLSeconds = 900 })
	if _, err := p.WriteWorkspaceFile(ctx, WriteWorkspaceFileRequest{WorkspaceID: id, Path: "f", Text: "source"}); err != nil {
		t.Fatal(err)
	}
	made, err := p.ForkWorkspace(ctx, ForkWorkspaceRequest{WorkspaceID: id, Count: 3, Name: "copy", Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{id: true}
	for i, w := range made.Workspaces {
		seen[w.WorkspaceID] = true
		if w.Name != "copy-"+strconv.Itoa(i+1) || w.Labels["a"] != "b" || w.WorkspaceSeed.ForkedFrom != id || w.State != StateStarted || w.TTLSeconds != 900 {
			t.Errorf("%+v", w)
		}
		text := strconv.Itoa(i)
		if _, err := p.WriteWorkspaceFile(ctx, WriteWorkspaceFileRequest{WorkspaceID: w.WorkspaceID, Path: "f", Text: text}); err != nil {
			t.Error(err)
		}
		d, err := p.DiffWorkspace(ctx, DiffWorkspaceRequest{WorkspaceID: w.WorkspaceID})
		if err != nil || d.Summary.Modified != 1 || d.Summary.Added != 0 || !strings.Contains(d.Patch, "-source\n") {
			t.Errorf("diff with the initial content: got %+v, %v", d, err)
		}
	}
	if made.WorkspaceID != id || made.Count != 3 || len(made.Workspaces) != 3 || len(seen) != 4 {
		t.Errorf("%+v", made)
	}
	if f, err := p.ReadWorkspaceFile(ctx, ReadWorkspaceFileRequest{WorkspaceID: id, Path: "f"}); err != nil || f.Content != "source" {
		t.Errorf("the source has %+v, %v", f, err)
	}
	if all, err := p.ListSnapshots(ctx, id); err != nil || all.Count != 1 || len(all.Snapshots) != 1 {
		t.Errorf("snapshots after a live fork: got %+v, %v", all, err)
	}
}

func TestProgress(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	var phases []string
	report := func(news Progress) { phases = append(phases, news.Subject+": "+news.Phase) }
	_, err := p.DiffWorkspace(ctx, DiffWorkspaceRequest{WorkspaceID: id, Progress: report})
	if err == nil {
		_, err = p.CreateSnapshot(ctx, CreateSnapshotRequest{WorkspaceID: id, SnapshotName: "s", Progress: report})
	}
	if err == nil {
		_, err = p.ExportWorkspace(ctx, ExportWorkspaceRequest{WorkspaceID: id, Path: ".", OutputPath: filepath.Join(t.TempDir(), "out"), Progress: report})
	}
	if want := []string{id + ": comparing files", id + ": saving files", id + ": copying files"}; err != nil || !slices.Equal(phases, want) {
		t.Errorf("got %q, %v, want %q", phases, err, want)
	}
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	p := withWorkspaces(t)
	pipe := filepath.Join(t.TempDir(), "not an archive.tar")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.tar")
	if err := os.WriteFile(broken, []byte(strings.Repeat("x", 2048)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"/no/such/folder", pipe, broken} {
		if w, err := p.CreateWorkspace(t.Context(), CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true, SeedPath: seed}); err == nil {
			t.Errorf("%s: %+v", seed, w)
		}
	}
	if all, err := p.ListWorkspaces(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	if left, err := os.ReadDir(p.workspaces.Dirs.Workspaces()); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestListCallsEach(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	for _, path := range []string{"a", "sub/b", "sub/c"} {
		if _, err := p.WriteWorkspaceFile(ctx, WriteWorkspaceFileRequest{WorkspaceID: id, Path: path, Text: path}); err != nil {
			t.Fatal(err)
		}
	}
	held, err := p.ListWorkspaceFiles(ctx, ListWorkspaceFilesRequest{WorkspaceID: id, Recursive: true})
	if err != nil || held.Count != 4 {
		t.Fatalf("%+v, %v", held, err)
	}
	var given []FileEntry
	list, err := p.ListWorkspaceFiles(ctx, ListWorkspaceFilesRequest{WorkspaceID: id, Recursive: true, Each: func(l *WorkspaceFiles, e FileEntry) error {
		given = append(given, e)
		if l.Path != held.Path || l.ArtifactType != DirectoryArtifact || l.Count != len(given) {
			t.Errorf("the list is %+v", l)
		}
		return nil
	}})
	if err != nil || list.Count != 4 || len(list.Entries) != 0 || !slices.Equal(given, held.Entries) {
		t.Errorf("%v, %+v, %+v, want %+v", err, list, given, held.Entries)
	}
	enough := errors.New("enough")
	_, err = p.ListWorkspaceFiles(ctx, ListWorkspaceFilesRequest{WorkspaceID: id, Each: func(*WorkspaceFiles, FileEntry) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("error of the receiving function: got %v", err)
	}
}
