package operations

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// contractTools are the tools of the contract, and twelve more.
const contractTools = `vm_run vm_list_environments vm_create vm_start vm_exec vm_stop vm_delete vm_status vm_network_info vm_reap_expired
	workspace_create workspace_list workspace_sync_push workspace_stop workspace_start workspace_exec workspace_file_list workspace_file_read workspace_file_write
	workspace_export workspace_patch_apply workspace_disk_export workspace_disk_list workspace_disk_read workspace_diff snapshot_create snapshot_list snapshot_delete
	workspace_reset service_start service_list service_status service_logs service_stop shell_open shell_read shell_write shell_signal shell_close workspace_status
	workspace_update workspace_logs workspace_delete
	workspace_summary workspace_fork workspace_pause workspace_resume workspace_network_log command_start command_read command_wait command_kill service_publish service_unpublish workspace_sync_pull`

const contractCore = `vm_run workspace_create workspace_list workspace_update workspace_status workspace_sync_push workspace_exec workspace_logs workspace_file_list
	workspace_file_read workspace_file_write workspace_patch_apply workspace_diff workspace_export workspace_reset workspace_delete`

// TestProfiles checks the tools of each profile, and the size of their descriptions.
func TestProfiles(t *testing.T) {
	for _, row := range []struct {
		profile Profile
		tools   string
		model   int // maximum bytes of tools/list without output schemas, titles and annotations
		most    int // maximum bytes of tools/list
	}{{ProfileVMRun, "vm_run", 1_700, 3_200}, {ProfileWorkspaceCore, contractCore, 8_500, 33_000}, {ProfileWorkspaceFull, contractTools, 26_000, 103_000}} {
		s := serve(t, nil, row.profile, "")
		c := s.client(t)
		listed, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range listed.Tools {
			names = append(names, tool.Name)
			if tool.Description == "" || strings.Contains(tool.Description, "\n") || tool.Annotations == nil || tool.Title == "" || tool.OutputSchema == nil {
				t.Errorf("%s: %q, %q, %+v, %v", tool.Name, tool.Title, tool.Description, tool.Annotations, tool.OutputSchema)
			}
		}
		want := strings.Fields(row.tools)
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("%s has %q, not %q", row.profile, names, want)
		}
		text, err := json.Marshal(listed)
		for _, tool := range listed.Tools {
			tool.OutputSchema, tool.Annotations, tool.Title = nil, nil, ""
		}
		short, _ := json.Marshal(listed)
		t.Logf("%s: %d tools in %d bytes, %d for a model", row.profile, len(names), len(text), len(short))
		if err != nil || len(text) > row.most || len(short) > row.model {
			t.Errorf("%s: %d bytes, %d for a model, %v", row.profile, len(text), len(short), err)
		}
	}
	if _, err := NewServer(nil, "core", ""); pyro.KindOf(err) != pyro.Invalid {
		t.Errorf("unknown profile: got %v", err)
	}
}

// TestToolKinds checks the annotations of each tool. Hosts use them to decide what to ask the user.
func TestToolKinds(t *testing.T) {
	want := map[string]string{ // read-only, destructive, idempotent, open world
		"vm_run": "-d-o", "vm_create": "---o", "vm_start": "--i-", "vm_exec": "-d-o", "vm_stop": "-di-", "vm_delete": "-di-", "vm_reap_expired": "-di-",
		"workspace_create": "---o", "workspace_update": "-di-", "workspace_stop": "-di-", "workspace_start": "--i-", "workspace_pause": "--i-", "workspace_resume": "--i-",
		"workspace_delete": "-di-", "workspace_exec": "-d-o", "workspace_reset": "-d--", "workspace_fork": "----", "workspace_sync_push": "-di-", "workspace_sync_pull": "-di-",
		"workspace_file_write": "-di-", "workspace_patch_apply": "-d--", "workspace_export": "-di-", "workspace_disk_export": "----",
		"snapshot_create": "----", "snapshot_delete": "-di-", "service_start": "-d-o", "service_stop": "-di-", "service_publish": "----", "service_unpublish": "-di-",
		"command_start": "-d-o", "command_kill": "-di-", "shell_open": "-d-o", "shell_write": "-d-o", "shell_signal": "-d--", "shell_close": "-di-",
	}
	for _, tool := range tools(nil, ProfileWorkspaceFull, "") {
		a := tool.Definition().Annotations
		got := ""
		for i, has := range []bool{a.ReadOnlyHint, *a.DestructiveHint, a.IdempotentHint, *a.OpenWorldHint} {
			if got += "-"; has {
				got = got[:i] + string("rdio"[i])
			}
		}
		if w, ok := want[tool.Name]; ok && got != w || !ok && got != "r-i-" {
			t.Errorf("%s: %s, not %s", tool.Name, got, w)
		}
	}
}

// TestToolArguments checks that each argument of a tool is a field of its request.
func TestToolArguments(t *testing.T) {
	for _, tool := range tools(nil, ProfileWorkspaceFull, "") {
		fields := jsonFields(tool.Request)
		for _, a := range tool.Args {
			if !slices.Contains(fields, a.Name) {
				t.Errorf("%s: argument %s is not a field of the request, which has %q", tool.Name, a.Name, fields)
			}
		}
	}
}

func jsonFields(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			names = append(names, jsonFields(f.Type)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// TestWrongArguments checks that wrong arguments are one clear error and start nothing.
func TestWrongArguments(t *testing.T) {
	s := serve(t, nil, ProfileWorkspaceFull, "")
	c := s.client(t)
	for _, row := range []struct{ tool, args, says string }{
		{"workspace_exec", `{}`, "the argument workspace_id is missing"},
		{"workspace_exec", `{"workspace_id": "ws-1"}`, "the argument command is missing"},
		{"workspace_exec", `{"workspace_id": "ws-1", "command": 7}`, "command: want a string, got 7"},
		{"workspace_exec", `{"workspace_id": "ws-1", "command": "x", "timeout_seconds": 0}`, "timeout_seconds: want at least 1, got 0"},
		{"workspace_exec", `{"workspace_id": "ws-1", "command": "x", "timeout_seconds": 1.5}`, "timeout_seconds: want an integer, got 1.5"},
		{"workspace_exec", `{"workspace_id": "ws-1", "command": "x", "argv": ["y"]}`, `unknown argument "argv"`},
		{"workspace_exec", `{"workspace_id": "ws-1", "command": "x", "secret_env": {"A": 1}}`, "secret_env.A: want a string, got 1"},
		{"workspace_create", `{"environment": "debian:12", "network_policy": "all"}`, `network_policy: want one of "`},
		{"workspace_create", `{"environment": "debian:12", "secrets": [{"value": "x"}]}`, "the argument secrets[0].name is missing"},
		{"service_start", `{"workspace_id": "ws-1", "service_name": "a", "command": "x", "published_ports": [{"guest_port": 65536}]}`, "published_ports[0].guest_port: want at most 65535, got 65536"},
		{"shell_signal", `{"workspace_id": "ws-1", "shell_id": "x", "signal_name": "SEGV"}`, `signal_name: want one of "`},
		{"workspace_list", `[]`, ""},
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: row.tool, Arguments: json.RawMessage(row.args)})
		if row.says == "" {
			if err == nil && !r.IsError {
				t.Errorf("%s %s: %+v", row.tool, row.args, r)
			}
			continue
		}
		if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, row.says) {
			t.Errorf("%s %s: %+v, %v", row.tool, row.args, r, err)
			continue
		}
		if f := r.StructuredContent.(map[string]any); f["kind"] != string(pyro.Invalid) {
			t.Errorf("%s %s: %v", row.tool, row.args, f)
		}
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "workspace_destroy"}); err == nil {
		t.Error("got no error for an unknown tool")
	}
}

// TestTolerantArguments checks for every argument of every tool that null counts as a missing
// argument, and that an integral number counts as an integer.
func TestTolerantArguments(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // tools without required arguments panic, because there is no Pyro
	all := tools(nil, ProfileWorkspaceFull, "")
	s := mcp.NewServer("pyro", "1", "", all)
	for _, tool := range all {
		for _, a := range tool.Args {
			value := "null"
			if schema := a.Schema(); schema.Type == "integer" {
				value = fmt.Sprintf("%.1f", max(1, *schema.Minimum))
			}
			_, err := s.Call(t.Context(), tool.Name, json.RawMessage(`{"`+a.Name+`": `+value+`}`), nil)
			if text := fmt.Sprint(err); strings.Contains(text, "want") || strings.Contains(text, "unmarshal") || a.Required && !strings.Contains(text, "is missing") {
				t.Errorf("%s: %s: %s", tool.Name, a.Name, text)
			}
		}
	}
}

// TestCallTool calls tools without a transport.
func TestCallTool(t *testing.T) {
	p := open(t)
	s := serve(t, p, ProfileWorkspaceFull, "")
	defer s.Close()
	tools, err := s.Tools()
	if err != nil || len(tools) != len(strings.Fields(contractTools)) {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	listed, err := s.client(t).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		i := slices.IndexFunc(listed.Tools, func(other *sdk.Tool) bool { return other.Name == tool.Name })
		if i < 0 {
			t.Fatalf("%s is not announced", tool.Name)
		}
		var schema any
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil || !reflect.DeepEqual(schema, listed.Tools[i].InputSchema) || tool.Description != listed.Tools[i].Description {
			t.Errorf("%s: clients get the schema %v, want %s, %v", tool.Name, listed.Tools[i].InputSchema, tool.InputSchema, err)
		}
	}
	result, err := s.CallTool(t.Context(), "vm_list_environments", nil, nil)
	if err != nil || !strings.Contains(string(result), `"debian:12"`) {
		t.Errorf("%s, %v", result, err)
	}
	result, err = s.CallTool(t.Context(), "vm_run", json.RawMessage(`{"environment": "debian:12", "command": "echo $((6*7)); exit 3", "allow_host_compat": true}`), func(string) {})
	var r pyro.RunResult
	if json.Unmarshal(result, &r) != nil || err != nil || r.Stdout != "42\n" || r.ExitCode != 3 {
		t.Errorf("%s, %v", result, err)
	}
	for _, row := range []struct {
		tool, args string
		kind       pyro.Kind
	}{{"no_such_tool", "{}", pyro.NotFound}, {"vm_run", "{", pyro.Invalid}, {"vm_run", `{"environment": "debian:12"}`, pyro.Invalid}, {"workspace_status", `{"workspace_id": "ws-0"}`, pyro.NotFound}} {
		if _, err := s.CallTool(t.Context(), row.tool, json.RawMessage(row.args), nil); pyro.KindOf(err) != row.kind {
			t.Errorf("%s %s: %v", row.tool, row.args, err)
		}
	}
}
