package guest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// TestHostKeysOfEnvironment checks that the first Renew removes the SSH host keys of an
// environment. Later calls must not remove keys that the machine has created.
func TestHostKeysOfEnvironment(t *testing.T) {
	path := t.TempDir()
	folder := filepath.Join(path, "etc/ssh")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	e := &execEnv{}
	renewed := func(m *agentv1.RenewRequest, want ...string) {
		t.Helper()
		if err := e.removeKeys(int(root.Fd()), m); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(folder)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("there are %q, not %q; %v", names, want, err)
		}
	}
	put("ssh_host_ed25519_key")
	put("ssh_host_ed25519_key.pub")
	put("ssh_host_rsa_key")
	put("sshd_config")
	kept := &agentv1.RenewRequest{MachineId: "1"}
	renewed(kept, "ssh_host_ed25519_key", "ssh_host_ed25519_key.pub", "ssh_host_rsa_key", "sshd_config")
	fresh := &agentv1.RenewRequest{MachineId: "2", FreshRoot: true}
	renewed(fresh, "sshd_config")
	put("ssh_host_rsa_key")
	renewed(fresh, "ssh_host_rsa_key", "sshd_config")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := e.removeKeys(int(root.Fd()), &agentv1.RenewRequest{MachineId: "3", FreshRoot: true}); err != nil {
		t.Error(err)
	}
}
