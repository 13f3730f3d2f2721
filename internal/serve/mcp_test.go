package serve

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro"
)

// withKey adds an API key to requests.
type withKey struct{ name, value string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(k.name, k.value)
	return http.DefaultTransport.RoundTrip(r)
}

// agent is a connected MCP client.
type agent struct {
	t testing.TB
	*sdk.ClientSession
}

func (w *world) agent(key string) agent {
	w.t.Helper()
	header := withKey{"Authorization", "Bearer " + w.keys[key]}
	if key == "read" {
		header = withKey{keyHeader, w.keys[key]}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(w.t.Context(), &sdk.StreamableClientTransport{Endpoint: w.url + mcpPath, HTTPClient: &http.Client{Transport: header}}, nil)
	w.check(err)
	w.t.Cleanup(func() { session.Close() })
	return agent{w.t, session}
}

// call calls a tool and decodes its result. kind is the kind of the error, or empty.
func (a agent) call(name string, args map[string]any, out any) (kind string) {
	a.t.Helper()
	r, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	text, _ := json.Marshal(r.StructuredContent)
	if r.IsError {
		var failure struct{ Kind string }
		json.Unmarshal(text, &failure)
		return failure.Kind
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			a.t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	return ""
}

// TestMCPTools checks that no tool has an argument for a path of the host.
func TestMCPTools(t *testing.T) {
	w := newWorld(t)
	list, err := w.agent("full").ListTools(t.Context(), nil)
	w.check(err)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		schema, _ := json.Marshal(tool.InputSchema)
		for _, arg := range []string{"seed_path", "source_path", "output_path", "file_path", "secret_env", "published_ports", "allow_host_compat", "isolation", "on the host"} {
			if strings.Contains(string(schema), `"`+arg+`"`) {
				t.Errorf("%s has %s", tool.Name, arg)
			}
		}
	}
	want := strings.Fields(`workspace_create workspace_list workspace_status workspace_pause workspace_resume workspace_delete workspace_exec workspace_logs workspace_summary
		workspace_reset workspace_fork workspace_network_log workspace_file_list workspace_file_read workspace_file_write workspace_patch_apply workspace_diff
		workspace_disk_list workspace_disk_read snapshot_create snapshot_list snapshot_delete service_start service_list service_status service_logs service_stop
		shell_open shell_read shell_write shell_signal shell_close command_start command_read command_wait command_kill`)
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
}

// TestMCPLife uses a sandbox through tools, with another team and a viewer.
func TestMCPLife(t *testing.T) {
	w := newWorld(t)
	w.answerOperations()
	own, foreign, viewer := w.agent("full"), w.agent("foreign"), w.agent("read")
	var made pyro.Workspace
	if kind := own.call("workspace_create", map[string]any{"environment": "debian:12", "labels": map[string]any{"a": "b"}, "ttl_seconds": 60}, &made); kind != "" {
		t.Fatal(kind)
	}
	id := made.WorkspaceID
	if b, err := w.store.Sandbox(t.Context(), w.team, id); err != nil || b.MemoryMB != pyro.DefaultMemMiB || b.TimeoutSec != 60 || made.Labels["a"] != "b" {
		t.Errorf("%+v, %v, %v", b, made.Labels, err)
	}
	var ran pyro.WorkspaceExecResult
	if kind := own.call("workspace_exec", map[string]any{"workspace_id": id, "command": "echo hello"}, &ran); kind != "" || ran.Stdout != "hello\n" || ran.WorkspaceID != id {
		t.Errorf("%s: %+v", kind, ran)
	}
	calls := w.host.Calls()
	if last := calls[len(calls)-1]; string(last.Params) != `{"command":"echo hello"}` {
		t.Errorf("%s", last.Params)
	}
	var files struct{ Entries []map[string]any }
	if kind := viewer.call("workspace_file_list", map[string]any{"workspace_id": id}, &files); kind != "" || len(files.Entries) != 1 || files.Entries[0]["kind"] != "f" {
		t.Errorf("%s: %+v", kind, files)
	}
	of := map[string]any{"workspace_id": id}
	for name, args := range map[string]map[string]any{
		"workspace_status": of, "workspace_pause": of, "workspace_resume": of, "workspace_delete": of, "workspace_diff": of, "workspace_fork": of, "workspace_reset": of,
		"workspace_exec": {"workspace_id": id, "command": "true"}, "shell_read": {"workspace_id": id, "shell_id": "s"},
	} {
		if kind := foreign.call(name, args, nil); kind != "not_found" {
			t.Errorf("%s by another team: %q", name, kind)
		}
	}
	for name, args := range map[string]map[string]any{
		"workspace_create": {"environment": "debian:12"}, "workspace_pause": of, "workspace_resume": of, "workspace_delete": of, "workspace_fork": of, "workspace_reset": of,
		"workspace_exec": {"workspace_id": id, "command": "true"}, "workspace_file_write": {"workspace_id": id, "path": "a", "text": "b"},
	} {
		if kind := viewer.call(name, args, nil); kind != "permission_denied" {
			t.Errorf("%s by a viewer: %q", name, kind)
		}
	}
	var forks struct {
		Count      int
		Workspaces []pyro.Workspace
	}
	if kind := own.call("workspace_fork", map[string]any{"workspace_id": id, "count": 2, "live": true}, &forks); kind != "" || forks.Count != 2 || forks.Workspaces[0].Labels["a"] != "b" {
		t.Errorf("%s: %+v", kind, forks)
	}
	if kind := own.call("workspace_pause", of, nil); kind != "" {
		t.Error(kind)
	}
	var list struct {
		Count      int
		Workspaces []pyro.WorkspaceSummary
	}
	if kind := viewer.call("workspace_list", map[string]any{"state": "paused", "labels": map[string]any{"a": "b"}}, &list); kind != "" || list.Count != 1 || list.Workspaces[0].WorkspaceID != id {
		t.Errorf("%s: %+v", kind, list)
	}
	if kind := own.call("workspace_diff", of, nil); kind != "" || w.host.Statuses()[id] != "running" {
		t.Errorf("%s, it is %s", kind, w.host.Statuses()[id])
	}
	if kind := own.call("workspace_delete", of, nil); kind != "" || w.host.Statuses()[id] != "" {
		t.Errorf("%s, it is %s", kind, w.host.Statuses()[id])
	}
}

// TestMCPLimits checks that numbers which the host agent would truncate are refused.
func TestMCPLimits(t *testing.T) {
	w := newWorld(t)
	w.answerOperations()
	own := w.agent("full")
	for _, args := range []map[string]any{
		{"environment": "debian:12", "mem_mib": 1<<32 + 512}, {"environment": "debian:12", "mem_mib": 1<<20 + 1},
	} {
		if kind := own.call("workspace_create", args, nil); kind != "invalid_argument" {
			t.Errorf("%v: %q", args, kind)
		}
	}
	if all, err := w.store.Sandboxes(t.Context(), w.team); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestMCPAuthentication checks the answers to requests without a valid key, and the metadata that a
// client then reads.
func TestMCPAuthentication(t *testing.T) {
	w := newWorld(t)
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	send := func(body string, headers map[string]string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+mcpPath, strings.NewReader(body))
		w.check(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		if host := headers["Host"]; host != "" {
			r.Host = host
		}
		a, err := http.DefaultClient.Do(r)
		w.check(err)
		t.Cleanup(func() { a.Body.Close() })
		return a
	}
	for name, headers := range map[string]map[string]string{
		"none": nil, "revoked": {keyHeader: w.keys["revoked"]}, "a cookie": {"Cookie": cookieName + "=x"}, "another scheme": {"Authorization": "Basic " + w.keys["full"]},
	} {
		a := send(initialize, headers)
		want := `Bearer realm="pyro", resource_metadata="` + w.url + metadataPath + mcpPath + `"`
		if got := a.Header.Get("WWW-Authenticate"); a.StatusCode != http.StatusUnauthorized || got != want {
			t.Errorf("%s: got %d and %q", name, a.StatusCode, got)
		}
	}
	for _, path := range []string{metadataPath, metadataPath + mcpPath} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		w.check(err)
		a, err := http.DefaultClient.Do(r)
		w.check(err)
		var m map[string]any
		err = json.NewDecoder(a.Body).Decode(&m)
		a.Body.Close()
		if err != nil || m["resource"] != w.url+mcpPath {
			t.Errorf("%s: %v, %v", path, m, err)
		}
	}
	made := send(initialize, map[string]string{keyHeader: w.keys["full"]})
	session := made.Header.Get("Mcp-Session-Id")
	if made.StatusCode != http.StatusOK || session == "" {
		t.Fatalf("got %d, %v", made.StatusCode, made.Header)
	}
	ping := `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for key, want := range map[string]int{"full": 200, "read": 403, "foreign": 404} { // read is another key of the same team
		if a := send(ping, map[string]string{keyHeader: w.keys[key], "Mcp-Session-Id": session, "Host": "pyro.example.com"}); a.StatusCode != want {
			t.Errorf("the session of another client with the key %s: got %d, want %d", key, a.StatusCode, want)
		}
	}
	w.server.Shutdown()
	if a := send(initialize, map[string]string{keyHeader: w.keys["full"]}); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the shutdown: got %d", a.StatusCode)
	}
}

// TestMCPTeams checks that servers of teams without sessions are closed when there are many.
func TestMCPTeams(t *testing.T) {
	w := newWorld(t)
	m := &w.server.mcp
	m.most = 3
	busy, err := m.use("busy")
	w.check(err)
	for i := range 2 * m.most {
		s, err := m.use("team" + string(rune('a'+i)))
		w.check(err)
		m.release(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.teams) > m.most || m.teams["busy"] != busy {
		t.Errorf("%d servers are open", len(m.teams))
	}
}
