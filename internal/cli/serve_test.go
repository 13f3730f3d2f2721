package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestMetricsToken checks that the first start makes the token and its folder, and that later
// starts read the token.
func TestMetricsToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "folder", "token")
	first, err := metricsToken(file)
	if err != nil || first.Reveal() == "" {
		t.Fatalf("got %q, %v", first.Reveal(), err)
	}
	if again, err := metricsToken(file); err != nil || again.Reveal() != first.Reveal() {
		t.Errorf("got %q and then %q, %v", first.Reveal(), again.Reveal(), err)
	}
}

// TestHostKey checks that a state folder has one key. The error for the name of another host must
// contain the path of the key file.
func TestHostKey(t *testing.T) {
	d := dirs.Dirs{State: t.TempDir()}
	if err := os.Mkdir(d.Host(), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := hostKey(d)
	if err != nil || len(first) < 20 {
		t.Fatalf("got %q, %v", first, err)
	}
	if again, err := hostKey(d); err != nil || again != first {
		t.Errorf("got %q and then %q, %v", first, again, err)
	}
	if err := os.WriteFile(hostKeyFile(d), []byte("key of a lost folder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := hostKey(d); err != nil || key != "key of a lost folder" {
		t.Errorf("got %q, %v", key, err)
	}
	err = sharedName(fault.New(fault.Exists, "record host", "here", "taken"), d)
	if hint := fault.HintOf(err); fault.KindOf(err) != fault.Exists || !strings.Contains(hint, "--host-name") || !strings.Contains(hint, hostKeyFile(d)) {
		t.Errorf("%v: %s", err, hint)
	}
	if other := fault.Newf(fault.Unavailable, "x"); sharedName(other, d) != error(other) {
		t.Error("another error was changed")
	}
}
