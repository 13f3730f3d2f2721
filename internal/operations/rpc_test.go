package operations

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
)

// contractMethods are the methods of the contract's Python SDK.
const contractMethods = `list_environments pull_environment inspect_environment prune_environments create_vm create_workspace list_workspaces push_workspace_sync
	stop_workspace start_workspace list_workspace_files read_workspace_file write_workspace_file export_workspace apply_workspace_patch export_workspace_disk
	list_workspace_disk read_workspace_disk diff_workspace create_snapshot list_snapshots delete_snapshot reset_workspace start_service list_services status_service
	logs_service stop_service open_shell read_shell write_shell signal_shell close_shell start_vm exec_vm exec_workspace stop_vm delete_vm delete_workspace status_vm
	status_workspace update_workspace logs_workspace network_info_vm reap_expired run_in_vm`

func TestRPCHasTheContract(t *testing.T) {
	var have []string
	for _, m := range methods(nil) {
		have = append(have, m.Name)
	}
	for name := range strings.FieldsSeq(contractMethods) {
		if !slices.Contains(have, name) {
			t.Errorf("unknown method %s", name)
		}
	}
}

// TestRPCHasAllOperations checks that each operation of package pyro is a method.
func TestRPCHasAllOperations(t *testing.T) {
	named := map[string]string{
		"NetworkLog": "network_log_workspace",
		// These methods have no result, need a terminal, never end, or are another form of an
		// operation.
		"Close": "", "AttachShell": "", "FollowService": "", "FollowLogs": "", "FollowCommand": "", "FollowStats": "", "ForwardPorts": "", "Workspace": "", "Workspaces": "", "Environments": "",
	}
	have := map[string]bool{"": true}
	for _, m := range methods(nil) {
		have[m.Name] = true
	}
	word := regexp.MustCompile(`[A-Z]+[a-z]*`)
	for m := range reflect.TypeFor[*pyro.Pyro]().Methods() {
		name, ok := named[m.Name]
		if !ok {
			name = strings.ToLower(strings.Join(word.FindAllString(m.Name, -1), "_"))
		}
		if !have[name] {
			t.Errorf("%s is not a method: %s does not exist", m.Name, name)
		}
	}
}

// TestServeRPC calls operations that need no machine.
func TestServeRPC(t *testing.T) {
	p, err := pyro.New(pyro.Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in, say := io.Pipe()
	hear, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- ServeRPC(t.Context(), p, in, out) }()
	answers := json.NewDecoder(hear)
	for _, row := range []struct{ method, params, says string }{
		{"list_workspaces", `{}`, `"result":{"count":0,"workspaces":[]}`},
		{"list_environments", `{}`, `"result":{"environments":[{`},
		{"inspect_environment", `{"environment":"debian:12"}`, `"name":"debian:12"`},
		{"inspect_environment", `{"environment":"debain:12"}`, `"data":{"hint":"pyro env list","kind":"not_found","op":"find environment","subject":"debain:12"}`},
		{"reap_expired", `{}`, `"count":0`},
		{"status_workspace", `{}`, `"kind":"not_found"`},
		{"status_workspace", `{"workspace_id":"ws-0123456789ab","all":true}`, `unknown parameter \"all\"`},
		{"fork_workspace", `{"workspace_id":"ws-0123456789ab"}`, `"kind":"not_found"`},
		{"exec_workspace", `{"workspace_id":"ws-0123456789ab"}`, `nothing to run`},
		{"exec_workspace", `{"workspace_id":"ws-0123456789ab","command":"x","argv":["y"]}`, `argv and command exclude each other`},
		{"run_in_vm", `{"environment":"debian:12"}`, `nothing to run`},
		{"run_in_vm", `{"environment":"debian:12","command":"x","vcpu_count":-1}`, `"code":-32602`},
		{"create_workspace", `{"environment":"debian:12","secrets":[{"name":"KEY","value":"hunter2","file_path":"x"}]}`, `both a value and a file`},
		{"create_workspace", `{"environment":"debian:12","secrets":[{"name":"KEY","valu":"hunter2"}]}`, `unknown parameter \"valu\"`},
		{"create_workspace", `{"environment":"debian:12","secrets":[{"name":"hunter 2","value":"hunter2"}]}`, `is not a valid name of an environment variable`},
		{"create_workspace", `{"environment":"debian:12","secrets":"hunter2"}`, `secrets must be an array`},
	} {
		fmt.Fprintf(say, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", row.method, row.params)
		var answer any
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(answer); !strings.Contains(string(text), row.says) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s %s: %s", row.method, row.params, text)
		}
	}
	say.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
