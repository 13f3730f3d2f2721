package pyro

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsAreHiddenInFormats(t *testing.T) {
	var req CreateWorkspaceRequest
	text := `{"environment": "debian:12", "secrets": [{"name": "A", "value": "hunter2"}, {"name": "B", "file_path": "/f"}]}`
	if err := json.Unmarshal([]byte(text), &req); err != nil {
		t.Fatal(err)
	}
	if a, b := req.Secrets[0], req.Secrets[1]; a.Value.Reveal() != "hunter2" || !b.Value.IsZero() || b.FilePath != "/f" {
		t.Errorf("%+v", req)
	}
	coded, err := json.Marshal(req)
	if printed := fmt.Sprintf("%v %+v %#v %s", req, req, req, coded); err != nil || strings.Contains(printed, "hunter2") {
		t.Errorf("%s, %v", printed, err)
	}
}

func TestSecretsAreChecked(t *testing.T) {
	p := withWorkspaces(t)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, MaxSecretBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	many := make([]Secret, MaxSecrets+1)
	for i := range many {
		many[i] = Secret{Name: fmt.Sprintf("S%d", i), Value: NewSecretValue("x")}
	}
	for name, secrets := range map[string][]Secret{
		"no name":      {{Value: NewSecretValue("hunter2")}},
		"a bad name":   {{Name: "A-B", Value: NewSecretValue("hunter2")}},
		"neither":      {{Name: "A"}},
		"both":         {{Name: "A", Value: NewSecretValue("hunter2"), FilePath: large}},
		"twice":        {{Name: "A", Value: NewSecretValue("hunter2")}, {Name: "A", Value: NewSecretValue("hunter3")}},
		"not UTF-8":    {{Name: "A", Value: NewSecretValue("hunter2\xff")}},
		"a NUL":        {{Name: "A", Value: NewSecretValue("hunter2\x00")}},
		"a large file": {{Name: "A", FilePath: large}},
		"many":         many,
	} {
		w, err := p.CreateWorkspace(t.Context(), CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true, Secrets: secrets})
		if KindOf(err) != Invalid || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	id := p.create(t, func(r *CreateWorkspaceRequest) { r.Secrets = []Secret{{Name: "A", Value: NewSecretValue("x")}} })
	for name, env := range map[string]map[string]string{"a bad name": {"A-B": ""}, "a bad variable": {"A": "1"}} {
		if _, err := p.ExecWorkspace(t.Context(), ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"true"}, SecretEnv: env}); KindOf(err) != Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.OpenShell(t.Context(), OpenShellRequest{WorkspaceID: id, SecretEnv: env}); KindOf(err) != Invalid {
			t.Errorf("%s, a shell: %v", name, err)
		}
	}
	if all, err := p.ListWorkspaces(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("left: %v, %v", all, err)
	}
}
