//go:build machine

package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
)

// TestHostNetworkSettings checks that a machine gets the settings of the host's tools, without
// passwords, and that it reaches nothing else.
func TestHostNetworkSettings(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte("registry=https://npm.test/all/\n//npm.test/all/:_authToken=npm-token-value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProgram(t).with("HTTPS_PROXY", "http://joe:proxy-password@proxy.test:3128").with("GOPROXY", "https://go.test").with("NPM_CONFIG_USERCONFIG", filepath.Join(home, ".npmrc"))
	if list := p.must("host", "network-settings"); strings.Contains(list, "proxy-password") || strings.Contains(list, "npm-token-value") || !strings.Contains(list, "NPM_TOKEN") {
		t.Errorf("%s", list)
	}
	const look = `env; cat /etc/npmrc; getent hosts other.test; true`
	r := p.run(nil, "run", environment, "--host-network-settings", "--json", "--", "sh", "-c", look)
	var got pyro.RunResult
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r.stderr)
	}
	for _, want := range []string{"https_proxy=http://proxy.test:3128\n", "GOPROXY=https://go.test\n", "registry=https://npm.test/all/\n"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("%q is not in\n%s", want, got.Stdout)
		}
	}
	if strings.Contains(got.Stdout, "proxy-password") || strings.Contains(got.Stdout, "npm-token-value") {
		t.Errorf("a credential is in the machine:\n%s", got.Stdout)
	}
	if len(got.NetworkRefusals) != 1 || got.NetworkRefused != 1 || got.NetworkRefusals[0] != (pyro.NetworkRefusal{Target: "other.test", Reason: "not allowed by any rule"}) {
		t.Errorf("refused: %d, %+v", got.NetworkRefused, got.NetworkRefusals)
	}

	id := p.create("--host-network-settings", "--host-network-credential", "NPM_TOKEN", "--host-network-credential", "HTTPS_PROXY")
	one := p.run(nil, "workspace", "exec", id, "--", "sh", "-c", `test "$NPM_TOKEN" = npm-"token"-value && test "$HTTPS_PROXY" = http://joe:proxy-"password"@proxy.test:3128 && echo "$NPM_TOKEN"; getent hosts other.test`)
	if !strings.HasPrefix(one.stdout, "[REDACTED]\n") {
		t.Errorf("the credentials: %q, %q", one.stdout, one.stderr)
	}
	if !strings.Contains(one.stderr, "1 connection was refused by the network policy: other.test (not allowed by any rule)") || !strings.Contains(one.stderr, "workspace network log "+id) {
		t.Errorf("%s", one.stderr)
	}
	fork := p.object("workspace", "fork", id)["workspaces"].([]any)[0].(map[string]any)["workspace_id"].(string)
	if out := p.run(nil, "workspace", "exec", fork, "--", "sh", "-c", `cat /etc/npmrc; echo "$NPM_TOKEN"`); out.stdout != "registry=https://npm.test/all/\n//npm.test/all/:_authToken=${NPM_TOKEN}\n[REDACTED]\n" {
		t.Errorf("the fork: %q, %q", out.stdout, out.stderr)
	}
	p.must("workspace", "delete", fork, id)
}
