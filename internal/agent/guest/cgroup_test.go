package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestKernelCounters(t *testing.T) {
	file := func(content string) *os.File {
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	g := &groups{kills: file("low 0\nhigh 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n")}
	if n, err := g.oomKills(); n != 3 || err != nil {
		t.Errorf("%d kills, %v", n, err)
	}
	before := &group{groups: g, kills: 2}
	since := &group{groups: g, kills: 3}
	if !before.OutOfMemory() || since.OutOfMemory() {
		t.Error("got kills from before the start, want only later ones")
	}
	for content, want := range map[string]bool{"populated 0\nfrozen 0\n": true, "populated 1\nfrozen 0\n": false, "": false} {
		if c := (&cgroup{events: file(content)}); c.empty() != want {
			t.Errorf("%q: empty is %v", content, !want)
		}
	}
}

// TestRepeatedKill checks that members that survive a kill are killed again, and can't start
// processes. Ordinary files simulate the kernel's cgroup.
func TestRepeatedKill(t *testing.T) {
	path := t.TempDir()
	file := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pids.max", "")
	write("cgroup.kill", "")
	write("cgroup.events", "populated 1\nfrozen 0\n")
	events, err := os.Open(filepath.Join(path, "cgroup.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	groups := &groups{max: "7"}
	c := &cgroup{path: path, events: events}
	g := &group{groups: groups, cgroup: c}
	c.holder = g
	if err := g.Kill(0); err != nil || file("cgroup.kill") != "1" || file("pids.max") != "0" {
		t.Errorf("%v, %q, %q", err, file("cgroup.kill"), file("pids.max"))
	}
	write("cgroup.kill", "")
	testenv.Eventually(t, "the remaining members are killed", func() bool { return file("cgroup.kill") == "1" })
	g.Release()
	if len(groups.left) != 1 || file("pids.max") != "0" {
		t.Error("a cgroup with members was released")
	}
	write("cgroup.events", "populated 0\nfrozen 0\n")
	groups.release(&cgroup{path: path, events: events})
	if len(groups.left) != 0 || len(groups.free) != 2 || file("pids.max") != "7" || c.holder != nil {
		t.Errorf("%+v, %q", groups, file("pids.max"))
	}
	if left, err := g.kill(); left || err != nil {
		t.Errorf("a cgroup of another exec was killed: %v", err)
	}
}
