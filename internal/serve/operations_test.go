package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/passive"
)

// results are the results of operations of the fake host, by method.
func results(sandbox string) map[string]any {
	now := time.Now().UTC()
	service := pyro.Service{
		WorkspaceID: sandbox, ServiceName: "web", State: pyro.ServiceRunning, Argv: []string{"sh"}, Cwd: "/workspace", PublishedPorts: []pyro.PublishedPort{}, StartedAt: now,
		Readiness: &pyro.Readiness{Type: pyro.ReadyHTTP, Target: "http://127.0.0.1:8000/"},
	}
	plain := service
	plain.ServiceName, plain.Readiness = "plain", nil
	return map[string]any{
		"diff_workspace":        pyro.WorkspaceDiff{WorkspaceID: sandbox, Changed: true, Entries: []pyro.ChangedFile{{Path: "/workspace/a", Status: "added"}}, Patch: "patch"},
		"apply_workspace_patch": pyro.AppliedPatch{WorkspaceID: sandbox, Changed: true, Entries: []pyro.PatchedFile{}},
		"list_snapshots":        pyro.WorkspaceSnapshots{WorkspaceID: sandbox, Count: 1, Snapshots: []pyro.Snapshot{{SnapshotName: "baseline", Kind: "baseline", CreatedAt: now}}},
		"create_snapshot":       pyro.WorkspaceSnapshot{WorkspaceID: sandbox, Snapshot: pyro.Snapshot{SnapshotName: "c", Kind: "named", CreatedAt: now}},
		"delete_snapshot":       pyro.DeletedSnapshot{WorkspaceID: sandbox, SnapshotName: "c", Deleted: true},
		"reset_workspace":       pyro.Workspace{WorkspaceID: sandbox, State: pyro.StateStarted, Labels: map[string]string{}},
		"status_workspace": pyro.Workspace{WorkspaceID: sandbox, State: pyro.StateStarted, Environment: "debian:12", VCPUCount: 1, MemMiB: 512, Labels: map[string]string{},
			NetworkPolicy: pyro.NetworkEgress, Network: &pyro.NetworkInfo{EgressAllow: []string{"example.com"}}},
		"start_service": service, "stop_service": plain, "status_service": service,
		"list_shells": pyro.WorkspaceShells{WorkspaceID: sandbox, Count: 3, Shells: []pyro.Shell{
			{ShellID: "sh-1", Tag: "agent", State: pyro.ShellRunning, Cols: 80, Rows: 24, OpenedAt: now},
			{ShellID: "sh-2", State: pyro.ShellRunning, Cols: 120, Rows: 30, OpenedAt: now}, {ShellID: "sh-3", State: pyro.ShellStopped},
		}},
		"list_services":         pyro.WorkspaceServices{WorkspaceID: sandbox, Count: 2, Services: []pyro.Service{plain, service}},
		"logs_service":          pyro.ServiceLogs{WorkspaceID: sandbox, ServiceName: "web", StdoutEncoding: pyro.UTF8, StderrEncoding: pyro.UTF8},
		"summarize_workspace":   pyro.WorkspaceActivity{WorkspaceID: sandbox, Labels: map[string]string{}},
		"logs_workspace":        pyro.WorkspaceLogs{WorkspaceID: sandbox, Entries: []pyro.CommandEntry{{Sequence: 1, Argv: []string{"true"}}}},
		"network_log_workspace": pyro.NetworkLog{WorkspaceID: sandbox, NetworkPolicy: pyro.NetworkEgress, Records: []pyro.NetworkRecord{{Protocol: "tcp", Verdict: pyro.VerdictAllowed}}},
		"exec_workspace": pyro.WorkspaceExecResult{WorkspaceID: sandbox, Cwd: "/workspace",
			CommandResult: pyro.CommandResult{Stdout: "hello\n", StdoutEncoding: pyro.UTF8, StderrEncoding: pyro.UTF8}},
		"list_workspace_files": pyro.WorkspaceFiles{WorkspaceID: sandbox, Path: "/workspace", Count: 1, Entries: []pyro.FileEntry{{Path: "/workspace/a", ArtifactType: pyro.FileArtifact, SizeBytes: 3}}},
	}
}

// answerOperations makes the fake host answer all operations.
func (w *world) answerOperations() {
	w.host.Operation = func(sandbox, method string, _ json.RawMessage) (any, error) {
		if result, ok := results(sandbox)[method]; ok {
			return result, nil
		}
		return nil, connect.NewError(connect.CodeUnimplemented, fault.Unsupported)
	}
}

// TestOperations checks the operation that each route calls, and its params.
func TestOperations(t *testing.T) {
	w := newWorld(t)
	w.answerOperations()
	id := w.create().ID
	for _, e := range []struct {
		method, path string
		in           any
		status       int
		operation    string
		params       string
	}{
		{"GET", "/diff?paths=a&paths=b&stat=true", nil, 200, "diff_workspace", `{"paths":["a","b"],"stat":true}`},
		{"POST", "/diff", map[string]any{"include_ignored": true}, 200, "diff_workspace", `{"include_ignored":true}`},
		{"POST", "/patch", map[string]any{"patch": strings.Repeat("x", 2<<20)}, 200, "apply_workspace_patch", ""},
		{"GET", "/checkpoints", nil, 200, "list_snapshots", `{}`},
		{"POST", "/checkpoints", map[string]any{"snapshot_name": "c", "full": true}, 201, "create_snapshot", `{"full":true,"snapshot_name":"c"}`},
		{"DELETE", "/checkpoints/c", nil, 200, "delete_snapshot", `{"snapshot_name":"c"}`},
		{"POST", "/reset", map[string]any{"snapshot": "c"}, 200, "reset_workspace", `{"snapshot":"c"}`},
		{"GET", "/terminals", nil, 200, "list_shells", `{}`},
		{"GET", "/services", nil, 200, "list_services", `{}`},
		{"POST", "/services", map[string]any{"service_name": "web", "command": "serve", "readiness": map[string]any{"type": "tcp", "target": "80"}}, 201, "start_service",
			`{"command":"serve","readiness":{"type":"tcp","target":"80"},"service_name":"web"}`},
		{"GET", "/services/web", nil, 200, "status_service", `{"service_name":"web"}`},
		{"POST", "/services/web/stop", nil, 200, "stop_service", `{"service_name":"web"}`},
		{"GET", "/services/web/logs?tail_lines=7", nil, 200, "logs_service", `{"service_name":"web","tail_lines":7}`},
		{"GET", "/service-ports", nil, 200, "list_services", `{}`},
		{"GET", "/egress", nil, 200, "status_workspace", `{}`},
		{"GET", "/network-log?all=true", nil, 200, "network_log_workspace", `{"all":true}`},
		{"GET", "/summary", nil, 200, "summarize_workspace", `{}`},
		{"GET", "/history", nil, 200, "logs_workspace", `{}`},
	} {
		var got map[string]any
		if status := w.call("full", e.method, "/v1/sandboxes/"+id+e.path, e.in, &got); status != e.status {
			t.Errorf("%s %s: got %d, want %d: %v", e.method, e.path, status, e.status, got)
			continue
		}
		calls := w.host.Calls()
		last := calls[len(calls)-1]
		if last.Sandbox != id || last.Method != e.operation || e.params != "" && string(last.Params) != e.params {
			t.Errorf("%s %s: called %s with %s", e.method, e.path, last.Method, last.Params)
		}
	}
	for path, in := range map[string]any{
		"/diff":     map[string]any{"workspace_id": "ws-1"},
		"/services": map[string]any{"service_name": "a", "secret_env": map[string]any{"A": "B"}},
		"/patch":    map[string]any{},
	} {
		if status := w.call("full", "POST", "/v1/sandboxes/"+id+path, in, nil); status != 400 {
			t.Errorf("%s with %v: got %d", path, in, status)
		}
	}
	var ports ServicePorts
	w.call("read", "GET", "/v1/sandboxes/"+id+"/service-ports", nil, &ports)
	if fmt.Sprint(ports.Ports) != "[{8000 web running}]" {
		t.Errorf("got %v", ports)
	}
	var all Terminals
	w.call("read", "GET", "/v1/sandboxes/"+id+"/terminals", nil, &all)
	if len(all.Terminals) != 2 || all.Terminals[0].Tag != "agent" || all.Terminals[1].Tag != "sh-2" || all.Terminals[1].Cols != 120 {
		t.Errorf("got %+v", all.Terminals)
	}
	var e Egress
	w.call("read", "GET", "/v1/sandboxes/"+id+"/egress", nil, &e)
	if e.Policy != "egress" || !slices.Equal(e.Allow, []string{"example.com"}) || e.Deny == nil {
		t.Errorf("got %+v", e)
	}
}

// TestViewerDoesNotResume checks that neither a read by a viewer nor a passive read resumes a
// paused sandbox.
func TestViewerDoesNotResume(t *testing.T) {
	w := newWorld(t)
	w.answerOperations()
	id := w.create().ID
	w.call("full", "POST", "/v1/sandboxes/"+id+"/pause", nil, nil)
	for _, e := range []struct {
		key, path, passive string
		status             int
		then               string
	}{
		{"read", "/diff", "", 409, "paused"}, {"read", "/history", "", 200, "paused"}, {"full", "/history", "", 200, "paused"},
		{"full", "/diff", "true", 409, "paused"}, {"full", "/diff", "", 200, "running"},
	} {
		if got := w.call(e.key, "GET", "/v1/sandboxes/"+id+e.path, nil, nil, passive.Header, e.passive); got != e.status {
			t.Errorf("%+v: got %d", e, got)
		}
		if got := w.host.Statuses()[id]; got != e.then {
			t.Errorf("%+v: it is %s", e, got)
		}
	}
}

func TestFork(t *testing.T) {
	w := newWorld(t)
	source := w.create()
	var first, again Sandbox
	path := "/v1/sandboxes/" + source.ID + "/fork"
	if got := w.call("full", "POST", path, Fork{Live: true}, &first, "Idempotency-Key", "k"); got != 201 || first.ParentID != source.ID || first.Status != "running" {
		t.Errorf("got %d: %+v", got, first)
	}
	if got := w.call("full", "POST", path, Fork{Live: true}, &again, "Idempotency-Key", "k"); got != 201 || again.ID != first.ID {
		t.Errorf("got %d: %+v", got, again)
	}
	for key, want := range map[string]int{"foreign": 404, "read": 403} {
		if got := w.call(key, "POST", path, Fork{}, nil); got != want {
			t.Errorf("with the key %s: got %d, want %d", key, got, want)
		}
	}
	if got := w.call("full", "POST", "/v1/sandboxes", NewSandbox{}, nil, "Idempotency-Key", "k"); got != 409 {
		t.Errorf("a creation with the key of a fork: got %d", got)
	}
	if got := w.call("full", "POST", path, Fork{Snapshot: "missing"}, nil); got != 404 {
		t.Errorf("from a missing checkpoint: got %d", got)
	}
}

func TestReadyPort(t *testing.T) {
	for _, e := range []struct {
		kind   pyro.ReadinessType
		target string
		want   int
	}{
		{pyro.ReadyTCP, "80", 80}, {pyro.ReadyTCP, "127.0.0.1:81", 81}, {pyro.ReadyTCP, "[::1]:82", 82}, {pyro.ReadyHTTP, "http://localhost/a", 80},
		{pyro.ReadyHTTP, "http://localhost:83/a", 83}, {pyro.ReadyHTTP, ":", 0}, {pyro.ReadyTCP, "70000", 0}, {pyro.ReadyFile, "80", 0}, {pyro.ReadyCommand, "80", 0},
	} {
		if got := readyPort(&pyro.Readiness{Type: e.kind, Target: e.target}); got != e.want {
			t.Errorf("%s %s: got %d, want %d", e.kind, e.target, got, e.want)
		}
	}
	if got := readyPort(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
