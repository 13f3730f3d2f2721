package pull_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/pull"
)

// TestModes checks that new entries get their modes as in git, and that existing files keep their
// mode and owner.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	const owner = 12345 // of the file "both", if the test can set it
	folder := t.TempDir()
	baseline, workspace, host := difftest.Tree{}, difftest.Tree{}, difftest.Tree{}
	file := func(mode fs.FileMode, text string) difftest.Node {
		return difftest.Node{Mode: mode, Data: []byte(text)}
	}
	for name, modes := range map[string][3]fs.FileMode{ // in the baseline, in the workspace, and on the host
		"both": {0o644, 0o777, 0o640}, "off": {0o755, 0o666, 0o751}, "kept": {0o644, 0o000, 0o606},
	} {
		baseline.Put(name, file(modes[0], "1"))
		workspace.Put(name, file(modes[1], "2"))
		host.Put(name, file(modes[2], "1"))
	}
	baseline.Put("merged", file(0o644, "1\n"))
	workspace.Put("merged", file(0o777, "1\n"))
	host.Put("merged", file(0o640, "mine\n"))
	workspace.Put("d", difftest.Node{Mode: fs.ModeDir | 0o777})
	workspace.Put("d/script", file(fs.ModeSetuid|0o777, "x"))
	workspace.Put("d/closed", file(0, "x"))
	workspace.Put("new", file(0o666, "x"))
	if err := host.Write(folder); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(folder, "both"), owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	plan := pulled(t, baseline, workspace, folder, pull.Merge)
	if len(plan.Conflicts()) > 0 {
		t.Fatalf("%q", results(plan))
	}
	for name, want := range map[string]fs.FileMode{
		"both": 0o750, "off": 0o640, "kept": 0o606, "merged": 0o750, "d": fs.ModeDir | 0o750, "d/script": 0o750, "d/closed": 0o640, "new": 0o640,
	} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode() != want {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode(), want)
		}
		if st := info.Sys().(*syscall.Stat_t); name == "both" && os.Geteuid() == 0 && st.Uid != owner {
			t.Errorf("%s has the owner %d", name, st.Uid)
		}
	}
}
