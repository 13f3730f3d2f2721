package guest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCountersOfTheKernel(t *testing.T) {
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
