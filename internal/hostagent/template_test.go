package hostagent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/machine"
)

const (
	team1     = "11111111-1111-1111-1111-111111111111"
	template1 = "22222222-2222-2222-2222-222222222222"
	template2 = "33333333-3333-3333-3333-333333333333"
)

func snapshot(t *testing.T, a *Agent, m *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	r, err := a.CreateSnapshot(t.Context(), connect.NewRequest(m))
	if err != nil {
		return nil, err
	}
	return r.Msg, nil
}

func deleteSnapshot(t *testing.T, a *Agent, m *pb.DeleteSnapshotRequest) error {
	_, err := a.DeleteSnapshot(t.Context(), connect.NewRequest(m))
	return err
}

func TestTemplate(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", Vcpus: 2, MemoryMb: 256, DefaultUser: "me", DefaultEnv: map[string]string{"A": "template", "B": "template"}})
	request := &pb.CreateSnapshotRequest{SandboxId: "x", Name: "mine", TeamId: team1, TemplateId: template1}
	r, err := snapshot(t, a, request)
	if err != nil || r.Name != "mine" || r.SizeBytes != 1<<20 {
		t.Fatalf("%v, %v", r, err)
	}
	if again, err := snapshot(t, a, request); err != nil || again.SizeBytes != r.SizeBytes { // repeated, as if the response was lost
		t.Errorf("asked again: %v, %v", again, err)
	}
	if all := list(t, a); len(all) != 0 {
		t.Errorf("it is still listed: %v", all)
	}
	if err := ping(t, a, "x"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	a.Close()
	a = open(t, folder, f, Limits{})
	made := create(t, a, &pb.CreateSandboxRequest{SandboxId: "y", TeamId: team1, TemplateId: template1, Vcpus: 7, DefaultEnv: map[string]string{"B": "own"}})
	if spec := f.made["ws-y"]; spec.Template != "ws-x" || spec.VCPUs != 2 || spec.MemoryMB != 256 || made.Status != statusRunning {
		t.Errorf("made %+v, %v", spec, made)
	}
	if y := a.all()[0].record(); y.DefaultUser != "me" || y.DefaultEnv["A"] != "template" || y.DefaultEnv["B"] != "own" || y.TemplateID != template1 || y.Template != "mine" {
		t.Errorf("%+v", y)
	}
	other := &pb.CreateSnapshotRequest{SandboxId: "y", TeamId: team1, TemplateId: template1}
	if _, err := snapshot(t, a, other); fault.KindOf(err) != fault.Exists {
		t.Errorf("got a template with one of these IDs: %v", err)
	}
	gone := &pb.DeleteSnapshotRequest{TeamId: team1, TemplateId: template1}
	if err := deleteSnapshot(t, a, gone); fault.KindOf(err) != fault.Precondition || fault.HintOf(err) == "" {
		t.Errorf("it is in use: %v", err)
	}
	if err := a.destroy(t.Context(), "y"); err != nil {
		t.Fatal(err)
	}
	if err := deleteSnapshot(t, a, gone); err != nil || len(f.records) != 0 {
		t.Errorf("%v, left: %v", err, f.records)
	}
	if err := deleteSnapshot(t, a, gone); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	missing := &pb.CreateSandboxRequest{TeamId: team1, TemplateId: template1}
	if _, err := a.CreateSandbox(t.Context(), connect.NewRequest(missing)); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// TestFlatTemplates creates machines of several sizes from a template that contains only files.
func TestFlatTemplates(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", MemoryMb: 256, DiskSizeMb: 70})
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	f.making = func(bool) error {
		if f.paused["ws-x"] {
			t.Error("the workspace is still paused, so files may only be in its memory")
		}
		return nil
	}
	r, err := a.FlattenRootfs(t.Context(), connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: "x", Name: "files"}))
	if err != nil || r.Msg.SizeBytes != 1<<20 {
		t.Fatalf("%v, %v", r, err)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "y", Template: "files", Vcpus: 3, DiskSizeMb: 7000})
	if spec := f.made["ws-y"]; spec.Template != "ws-x" || spec.VCPUs != 3 || spec.MemoryMB != 256 || spec.DiskSizeMB != 70 {
		t.Errorf("%+v", spec)
	}
	if y := a.all()[0].record(); y.DiskSizeMB != 70 || y.Template != "files" || y.Environment != DefaultEnvironment {
		t.Errorf("%+v", y)
	}
	for _, m := range []*pb.FlattenRootfsRequest{{SandboxId: "y"}, {SandboxId: "y", Name: minimal}, {SandboxId: "y", Name: "../x"}, {SandboxId: "y", TemplateId: noUUID}} {
		if _, err := a.FlattenRootfs(t.Context(), connect.NewRequest(m)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v: %v", m, err)
		}
	}
	if err := deleteSnapshot(t, a, &pb.DeleteSnapshotRequest{TemplateId: noUUID}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("minimal is deleted: %v", err)
	}
}

// TestFlattenStopped checks that a stopped sandbox is flattened without starting its machine. It
// also checks that the sandbox does not change if that fails.
func TestFlattenStopped(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x", Vcpus: 3})
	f.stop("ws-x")
	f.transition = func(string) error {
		t.Error("the test lets the machine continue")
		return nil
	}
	flat := &pb.FlattenRootfsRequest{SandboxId: "x", TeamId: team1, TemplateId: template1}
	no := fault.Newf(fault.Exhausted, "the disk is full")
	f.making = func(bool) error { return no }
	if _, err := a.FlattenRootfs(t.Context(), connect.NewRequest(flat)); !errors.Is(err, no) || list(t, a)[0].Status != statusStopped {
		t.Errorf("%v, %v", err, list(t, a))
	}
	f.making = nil
	r, err := a.FlattenRootfs(t.Context(), connect.NewRequest(flat))
	if err != nil || r.Msg.SizeBytes != 1<<20 || len(list(t, a)) != 0 {
		t.Fatalf("%v, %v, %v", r, err, list(t, a))
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "y", TeamId: team1, TemplateId: template1})
	if spec := f.made["ws-y"]; spec.Template != "ws-x" || spec.VCPUs != 3 {
		t.Errorf("%+v", spec)
	}
}

// TestTemplateFails checks that a sandbox is restored if its template can't be made. It also checks
// that a stopped sandbox is rejected.
func TestTemplateFails(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	no := fault.Newf(fault.Exhausted, "the disk is full")
	f.making = func(bool) error { return no }
	if _, err := snapshot(t, a, &pb.CreateSnapshotRequest{SandboxId: "x", TemplateId: template1}); !errors.Is(err, no) {
		t.Error(err)
	}
	if err := ping(t, a, "x"); err != nil {
		t.Errorf("it no longer runs: %v", err)
	}
	if err := pause(t, a, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot(t, a, &pb.CreateSnapshotRequest{SandboxId: "x", TemplateId: template1}); !errors.Is(err, no) || list(t, a)[0].Status != statusPaused {
		t.Errorf("%v, %v", err, list(t, a))
	}
	flat := &pb.FlattenRootfsRequest{SandboxId: "x", TemplateId: template1}
	if _, err := a.FlattenRootfs(t.Context(), connect.NewRequest(flat)); !errors.Is(err, no) || list(t, a)[0].Status != statusPaused {
		t.Errorf("%v, %v", err, list(t, a))
	}
	f.making = nil
	if err := a.destroy(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "ended"})
	f.stop("ws-ended")
	if _, err := snapshot(t, a, &pb.CreateSnapshotRequest{SandboxId: "ended", TemplateId: template1}); fault.KindOf(err) != fault.Precondition {
		t.Error(err)
	}
}

// TestDeathAfterTemplate simulates a host agent that dies after it made a template and before it
// removed the record.
func TestDeathAfterTemplate(t *testing.T) {
	f, folder := newFakes(), t.TempDir()
	a := open(t, folder, f, Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	before := a.all()[0].record()
	if _, err := snapshot(t, a, &pb.CreateSnapshotRequest{SandboxId: "x", TeamId: team1, TemplateId: template1}); err != nil {
		t.Fatal(err)
	}
	if err := a.writeRecord(before); err != nil {
		t.Fatal(err)
	}
	a.Close()
	a = open(t, folder, f, Limits{})
	if all := list(t, a); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "y", TeamId: team1, TemplateId: template1})
	if f.made["ws-y"].Template != "ws-x" {
		t.Errorf("%+v", f.made["ws-y"])
	}
}

// TestConcurrentTemplates makes the same template from many sandboxes at the same time, while other
// sandboxes are created and deleted.
func TestConcurrentTemplates(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	const many = 8
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, id := range names {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: id})
	}
	var mu sync.Mutex
	won := 0
	var all sync.WaitGroup
	for _, id := range names {
		all.Go(func() {
			_, err := snapshot(t, a, &pb.CreateSnapshotRequest{SandboxId: id, TeamId: team1, TemplateId: template2})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if fault.KindOf(err) != fault.Exists {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won != 1 || len(f.records) != 1 || len(list(t, a)) != many-1 {
		t.Fatalf("%d calls succeeded, %d templates and %d sandboxes exist", won, len(f.records), len(list(t, a)))
	}
	for _, id := range []string{"p", "q", "r"} {
		all.Go(func() {
			_, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: id, TeamId: team1, TemplateId: template2}))
			if err != nil && fault.KindOf(err) != fault.NotFound {
				t.Error(err)
			}
		})
	}
	all.Go(func() {
		if err := deleteSnapshot(t, a, &pb.DeleteSnapshotRequest{TeamId: team1, TemplateId: template2}); err != nil && fault.KindOf(err) != fault.Precondition {
			t.Error(err)
		}
	})
	all.Wait()
	if made := len(list(t, a)) - (many - 1); (made == 0) != (len(f.records) == 0) {
		t.Errorf("%d calls succeeded, %d templates exist", made, len(f.records))
	}
}

// TestUnknownTemplateIsNotPulled creates sandboxes with unknown template names. The state folder
// is empty.
func TestUnknownTemplateIsNotPulled(t *testing.T) {
	dir := t.TempDir()
	w, end := OpenWorkspaces(dirs.Dirs{Cache: filepath.Join(dir, "cache"), State: filepath.Join(dir, "state")}, machine.TCG, "off")
	defer end()
	a := open(t, filepath.Join(dir, "agent"), w, Limits{})
	for _, name := range []string{"nosuch", "nosuch:1", "team/nosuch", "debian:99"} {
		_, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x", Template: name}))
		if connect.CodeOf(toWire(err)) != connect.CodeNotFound || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "http") || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]bool{"a.b/c": true, "localhost/c": true, "a:5000/c": true, "a/c": false, "a.b": false, "a:1": false} {
		if namesRegistry(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestClientsReachNoPrivateRegistry creates a sandbox from an image of a server on this host.
func TestClientsReachNoPrivateRegistry(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	w, end := OpenWorkspaces(dirs.Dirs{Cache: filepath.Join(dir, "cache"), State: filepath.Join(dir, "state")}, machine.TCG, "off")
	defer end()
	a := open(t, filepath.Join(dir, "agent"), w, Limits{})
	name := strings.TrimPrefix(server.URL, "http://") + "/team/tool:1"
	_, err := a.CreateSandbox(t.Context(), connect.NewRequest(&pb.CreateSandboxRequest{SandboxId: "x", Template: name}))
	if connect.CodeOf(toWire(err)) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "loopback address") || fault.HintOf(err) != "pyro env pull "+name {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// TestNamedByClient checks which environments count as named by a client.
func TestNamedByClient(t *testing.T) {
	f := newFakes()
	a := open(t, t.TempDir(), f, Limits{})
	for template, want := range map[string]bool{"": false, minimal: false, DefaultEnvironment: false, "other": true} {
		create(t, a, &pb.CreateSandboxRequest{SandboxId: "x" + strings.ReplaceAll(template, ":", ""), Template: template})
		if spec := f.made["ws-x"+strings.ReplaceAll(template, ":", "")]; spec.NamedByClient != want {
			t.Errorf("%q: %+v", template, spec)
		}
	}
}
