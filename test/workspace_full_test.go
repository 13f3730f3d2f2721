//go:build machine

package test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFullStateFolder checks that commands run on a full disk, and report that their history is not
// stored. Deletions must work too. A stop must save a few changes to the root.
func TestFullStateFolder(t *testing.T) {
	testenv.NeedsRoot(t, "mount a small disk")
	p := newProgram(t)
	if err := unix.Mount("pyro-test", p.state, "tmpfs", 0, "size=96m"); err != nil {
		testenv.Lacks(t, "a small disk: ", err)
	}
	t.Cleanup(func() { unix.Unmount(p.state, unix.MNT_DETACH) })
	t.Cleanup(p.deleteAll) // before the disk is unmounted
	p.sandboxed()          // gVisor stores its files on that disk
	id, other, stopped := p.create(), p.create(), p.create()
	p.must("workspace", "stop", stopped)
	p.shell(other, "echo kept >/etc/kept")
	p.run(nil, "workspace", "exec", id, "--", "sh", "-c", "cat /dev/zero >/workspace/big; for size in 65536 4096 512 1; do dd if=/dev/zero bs=$size >>/workspace/more; done")
	var st unix.Statfs_t
	if err := unix.Statfs(p.state, &st); err != nil || st.Bavail*uint64(st.Bsize) > 1<<20 {
		t.Fatalf("%d bytes are free, %v", st.Bavail*uint64(st.Bsize), err)
	}
	var r pyro.WorkspaceExecResult
	for range 200 { // many commands, because SQLite's files still have some unused space
		out := p.run(nil, "workspace", "exec", other, "--json", "--", "sh", "-c", "head -c 65536 /dev/zero | tr '\\0' x")
		if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || out.code != 0 || len(r.Stdout) != 65536 {
			t.Fatalf("a command: %v, %d, %s", err, out.code, out.stderr)
		}
		if r.HistoryError != "" {
			break
		}
	}
	if !strings.Contains(r.HistoryError, "disk is full") {
		t.Errorf("the history: %q", r.HistoryError)
	}
	out := p.run(nil, "workspace", "exec", other, "--", "echo", "here")
	if out.code != 0 || out.stdout != "here\n" || !strings.Contains(out.stderr, "pyro: warning: ") || !strings.Contains(out.stderr, "pyro: hint: free space: pyro env prune") {
		t.Errorf("a command: %+v", out)
	}
	if n := len(p.list()); n != 3 {
		t.Errorf("%d workspaces", n)
	}
	p.must("env", "prune")
	p.must("workspace", "stop", other)
	p.must("workspace", "delete", stopped)
	p.must("workspace", "exec", id, "--", "rm", "/workspace/big", "/workspace/more")
	p.must("workspace", "start", other)
	if got := p.shell(other, "cat /etc/kept"); got != "kept\n" {
		t.Errorf("after a stop: %q", got)
	}
	p.must("workspace", "delete", other)
	if out := p.run(nil, "workspace", "exec", id, "--json", "--", "true"); strings.Contains(out.stdout, "history_error") {
		t.Errorf("with space again: %+v", out)
	}
	if left, _ := filepath.Glob(filepath.Join(p.state, "workspaces", "*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	p.must("workspace", "delete", id)
}
