package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// TestNetworkLogHidesSecrets checks that a name does not show a secret, although names are in lower
// case.
func TestNetworkLogHidesSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := program.OpenLogFile(path, 1<<20)
	check(t, err)
	d := &daemon{secrets: newSecrets(map[string]secret.Value{"TOKEN": secret.New("Hunter2-Correct")})}
	l := networkLog{of: d, file: file}
	l.write(network.Record{Protocol: "dns", Name: "hunter2-correct.example.com"})
	l.close()
	b, err := os.ReadFile(path)
	check(t, err)
	if log := string(b); strings.Contains(log, "hunter2") || !strings.Contains(log, secret.Hidden+".example.com") {
		t.Errorf("got %s", log)
	}
}
