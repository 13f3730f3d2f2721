//go:build machine

package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestWorkspaceSize checks --disk-mib. df must show the size. If /workspace is full, writes must
// fail with ENOSPC. The size must not change when the workspace is stopped, reset, paused or
// forked.
func TestWorkspaceSize(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"gvisor", "tcg"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "tcg" {
				skipUnlessAll(t)
			}
			p := workspaces(t).with("PYRO_ISOLATION", isolation)
			if isolation == "gvisor" {
				p = p.sandboxed()
			}
			seed := t.TempDir()
			if err := os.WriteFile(filepath.Join(seed, "seed"), []byte("seed"), 0o600); err != nil {
				t.Fatal(err)
			}
			id := p.create("--disk-mib", "64", "--seed-path", seed)
			p.isFull(id, "at first")
			p.must("workspace", "stop", id)
			p.must("workspace", "start", id)
			p.isFull(id, "after a start")
			p.pause(id)
			p.isFull(id, "after a pause")
			fork := p.object("workspace", "fork", id)["workspaces"].([]any)[0].(map[string]any)
			if fork["disk_mib"] != 64.0 {
				t.Errorf("a fork has %v MiB", fork["disk_mib"])
			}
			p.isFull(fork["workspace_id"].(string), "in a fork")
			live := p.object("workspace", "fork", id, "--live")["workspaces"].([]any)[0].(map[string]any)
			p.isFull(live["workspace_id"].(string), "in a live fork")
			p.must("workspace", "reset", id)
			p.isFull(id, "after a reset")

			if err := os.WriteFile(filepath.Join(seed, "large"), []byte(strings.Repeat("x", 65<<20)), 0o600); err != nil {
				t.Fatal(err)
			}
			before := len(p.list())
			p.fails(7, "the seed does not fit into its 64 MiB", "workspace", "create", environment, "--disk-mib", "64", "--seed-path", seed)
			if now := len(p.list()); now != before {
				t.Errorf("%d workspaces, not %d", now, before)
			}
		})
	}
}

// isFull fills a /workspace that has 64 MiB, then empties it.
func (p *program) isFull(id, when string) {
	p.t.Helper()
	line := p.shell(id, "df --output=size -BM /workspace | tail -1")
	if size, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), "M")); err != nil || size < 56 || size > 64 {
		p.t.Errorf("%s: df shows %q", when, line)
	}
	out := p.shell(id, "dd if=/dev/zero of=big bs=1M count=100 2>&1; stat -c %s big; rm big; cat seed")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	written, err := strconv.Atoi(lines[len(lines)-2])
	if err != nil || written < 50<<20 || written > 65<<20 || !strings.Contains(out, "No space left on device") || lines[len(lines)-1] != "seed" {
		p.t.Errorf("%s: %s", when, out)
	}
	p.shell(id, "dd if=/dev/zero of=big bs=1M count=40 2>&1 && rm big")
}
