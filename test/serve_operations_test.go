//go:build machine

package test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/client"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// sh runs a command line in a sandbox and returns its output.
func (a *api) sh(one, line string) string {
	a.t.Helper()
	var ended struct {
		Stdout, Stderr string
		ExitCode       int `json:"exit_code"`
	}
	a.must(200, "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", line}, "timeout_sec": 600}, &ended)
	if ended.ExitCode != 0 {
		a.t.Fatalf("%s: %+v", line, ended)
	}
	return ended.Stdout
}

// diffed is an answer of diff.
type diffed struct {
	WorkspaceID string `json:"workspace_id"`
	Changed     bool
	Patch       string
	Entries     []struct{ Path, Status string }
}

// TestServeOperations changes, patches, resets and forks a sandbox over HTTP, and runs a service in
// it.
func TestServeOperations(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	b, one := a.create(client.NewSandbox{Envs: &map[string]string{"WHO": "me"}})

	a.sh(one, "echo first >/workspace/a")
	var d diffed
	a.must(200, "GET", one+"/diff", nil, &d)
	if d.WorkspaceID != b.Id || len(d.Entries) != 1 || !strings.Contains(d.Patch, "+first") {
		t.Errorf("%+v", d)
	}
	a.must(201, "POST", one+"/checkpoints", map[string]any{"snapshot_name": "before"}, nil)
	a.must(200, "POST", one+"/patch", map[string]any{"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-first\n+second\n"}, nil)
	if got := a.sh(one, "cat /workspace/a"); got != "second\n" {
		t.Errorf("after the patch: %q", got)
	}
	a.must(409, "POST", one+"/patch", map[string]any{"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-first\n+third\n"}, nil)

	a.must(201, "POST", one+"/services", map[string]any{
		"service_name": "loop", "command": "echo $WHO; echo started >/tmp/loop; while :; do sleep 1; done", "readiness": map[string]string{"type": "file", "target": "/tmp/loop"},
	}, nil)
	var logs client.PyroServiceLogs
	a.must(200, "GET", one+"/services/loop/logs", nil, &logs)
	if logs.Stdout != "me\n" || logs.State != "running" {
		t.Errorf("%+v", logs)
	}

	var live, still client.Sandbox
	a.must(201, "POST", one+"/fork", map[string]any{"live": true}, &live)
	a.must(201, "POST", one+"/fork", map[string]any{"snapshot": "before"}, &still)
	for _, e := range []struct{ id, file, service string }{{live.Id, "second\n", "running"}, {still.Id, "first\n", ""}} {
		path := "/v1/sandboxes/" + e.id
		if got := a.sh(path, "cat /workspace/a; echo x >>/workspace/a"); got != e.file {
			t.Errorf("the file of the fork: %q, want %q", got, e.file)
		}
		a.must(200, "GET", path+"/diff", nil, &d)
		if len(d.Entries) != 1 || !strings.Contains(d.Patch, "\n+x\n") {
			t.Errorf("the changes in the fork: %+v", d)
		}
		var services struct{ Services []struct{ State string } }
		a.must(200, "GET", path+"/services", nil, &services)
		if e.service == "" && len(services.Services) > 0 || e.service != "" && (len(services.Services) != 1 || services.Services[0].State != e.service) {
			t.Errorf("the services of the fork: %+v, want %q", services, e.service)
		}
		if got := a.sh(path, "echo $WHO"); got != "me\n" {
			t.Errorf("the variable of the fork: %q", got)
		}
	}
	if got := a.sh(one, "cat /workspace/a"); got != "second\n" {
		t.Errorf("the source after its forks: %q", got)
	}

	a.must(200, "POST", one+"/services/loop/stop", nil, nil)
	a.must(200, "POST", one+"/reset", map[string]any{"snapshot": "before"}, &b)
	if b.Status != "running" {
		t.Errorf("after the reset: %+v", b)
	}
	if got := a.sh(one, "cat /workspace/a"); got != "first\n" {
		t.Errorf("after the reset: %q", got)
	}

	// The record and the host agree after a call has resumed the sandbox, and after a kill.
	a.must(200, "POST", one+"/pause", nil, nil)
	a.must(200, "GET", one+"/history", nil, nil)
	a.must(200, "GET", one, nil, &b)
	if b.Status != "paused" {
		t.Errorf("after a look at the history: %+v", b)
	}
	a.must(200, "GET", one+"/diff", nil, &d)
	a.kill()
	a.start()
	var all []client.Sandbox
	a.must(200, "GET", "/v1/sandboxes", nil, &all)
	if len(all) != 3 {
		t.Errorf("got %+v", all)
	}
	for _, b := range all {
		if b.Status != "running" {
			t.Errorf("after the server was killed: %+v", b)
		}
		a.must(204, "DELETE", "/v1/sandboxes/"+b.Id, nil, nil)
	}
	a.stop()
}

// withBearer adds a bearer token to requests.
type withBearer string

func (b withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestServeMCP uses a sandbox through the tools of an MCP client.
func TestServeMCP(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: a.address + "/mcp", HTTPClient: &http.Client{Transport: withBearer(a.key)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call := func(failed bool, name string, args map[string]any, out any) {
		t.Helper()
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := json.Marshal(r.StructuredContent)
		if err != nil || r.IsError != failed {
			t.Fatalf("%s: %s, %v", name, text, err)
		}
		if strings.Contains(string(text), `"ws-`) {
			t.Errorf("%s names a workspace of the host: %s", name, text)
		}
		if out != nil {
			if err := json.Unmarshal(text, out); err != nil {
				t.Errorf("%s: %v: %s", name, err, text)
			}
		}
	}
	var made struct {
		WorkspaceID string `json:"workspace_id"`
		State       string
		Isolation   string
	}
	call(false, "workspace_create", map[string]any{"environment": "debian:12", "mem_mib": 512}, &made)
	if made.State != "started" || made.Isolation == "" {
		t.Errorf("%+v", made)
	}
	of := func(more ...any) map[string]any {
		args := map[string]any{"workspace_id": made.WorkspaceID}
		for i := 0; i < len(more); i += 2 {
			args[more[i].(string)] = more[i+1]
		}
		return args
	}
	call(false, "workspace_file_write", of("path", "a", "text", "hello\n"), nil)
	var ran struct {
		Stdout   string
		ExitCode int `json:"exit_code"`
	}
	call(false, "workspace_exec", of("command", "cat a; exit 3"), &ran)
	if ran.Stdout != "hello\n" || ran.ExitCode != 3 {
		t.Errorf("%+v", ran)
	}
	var d diffed
	call(false, "workspace_diff", of(), &d)
	if !strings.Contains(d.Patch, "+hello") {
		t.Errorf("%+v", d)
	}
	var shell struct {
		ShellID string `json:"shell_id"`
	}
	call(false, "shell_open", of(), &shell)
	call(false, "shell_write", of("shell_id", shell.ShellID, "input", "echo $((6*7))"), nil)
	seen, cursor := "", 0
	testenv.Eventually(t, "the shell printed 42", func() bool {
		var read struct {
			Output     string
			NextCursor int `json:"next_cursor"`
		}
		call(false, "shell_read", of("shell_id", shell.ShellID, "cursor", cursor, "wait_for_idle_ms", 100, "plain", true), &read)
		seen, cursor = seen+read.Output, read.NextCursor
		return strings.Contains(seen, "42")
	})
	var forked struct {
		Workspaces []struct {
			WorkspaceID string `json:"workspace_id"`
			Seed        struct {
				ForkedFrom string `json:"forked_from"`
			} `json:"workspace_seed"`
		}
	}
	call(false, "workspace_fork", of(), &forked)
	if len(forked.Workspaces) != 1 || forked.Workspaces[0].Seed.ForkedFrom != made.WorkspaceID {
		t.Errorf("%+v", forked)
	}
	call(false, "workspace_pause", of(), nil)
	call(false, "workspace_exec", of("command", "true"), nil)
	call(true, "workspace_file_read", of("path", "missing"), nil)
	call(true, "workspace_status", map[string]any{"workspace_id": "cl-00000000"}, nil)
	call(false, "workspace_delete", of(), nil)
	var list struct{ Count int }
	call(false, "workspace_list", nil, &list)
	if list.Count != 1 {
		t.Errorf("%+v", list)
	}
	a.must(204, "DELETE", "/v1/sandboxes/"+forked.Workspaces[0].WorkspaceID, nil, nil)
}
