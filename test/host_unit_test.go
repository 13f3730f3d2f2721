//go:build machine

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHostAgentUnit checks that the host agent's systemd unit is valid and that its program exists.
func TestHostAgentUnit(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	text, err := os.ReadFile("../scripts/pyro-host.service")
	if err != nil {
		t.Fatal(err)
	}
	help := newProgram(t).run(nil, "host", "serve", "--help").stdout
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/pyro host serve (.*)$`).FindSubmatch(text)
	if start == nil {
		t.Fatal("it starts something else")
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(string(start[1]), -1) {
		if !strings.Contains(help, flag+" ") {
			t.Errorf("pyro host serve has no %s", flag)
		}
	}
	path := filepath.Join(t.TempDir(), "pyro-host.service")
	unit := strings.ReplaceAll(string(text), "/usr/local/bin/pyro", fromBin(t, "pyro"))
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=45", path).CombinedOutput(); err != nil {
		t.Errorf("it is exposed: %v\n%s", err, out)
	}
}
