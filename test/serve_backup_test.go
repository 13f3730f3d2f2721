//go:build machine

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pyro-mcp/pyro/client"
)

// linkedMemory is a warning of tar about the memory of a paused machine under QEMU. The file is a
// hard link to a file of the cache. Other tests link and unlink that file, which changes its ctime.
var linkedMemory = regexp.MustCompile(`(?m)^tar: \S+/memory-\w+/ram: file changed as we read it\n`)

// TestServeBackup runs the commands for a back-up and its restoration in docs/deploy.md.
func TestServeBackup(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	tar := func(args ...string) {
		t.Helper()
		out, err := exec.Command("tar", args...).CombinedOutput()
		if len(linkedMemory.ReplaceAll(out, nil)) > 0 || err != nil && len(out) == 0 {
			t.Fatalf("tar: %v\n%s", err, out)
		}
	}
	b, one := a.create(client.NewSandbox{})
	a.must(204, "POST", one+"/files/write", newForm(t, "/srv/data", "precious"), nil)
	a.must(202, "POST", one+"/exec", map[string]any{"cmd": "sleep", "args": []string{"100000"}, "background": true, "tag": "sleeps"}, nil)
	a.must(200, "POST", one+"/pause", nil, nil)

	a.stop()
	backup := filepath.Join(t.TempDir(), "pyro.tar.gz")
	tar("--create", "--gzip", "--sparse", "--xattrs", "--acls", "--numeric-owner", "--file", backup, "--directory", a.p.state, ".")

	a.start()
	a.must(200, "POST", one+"/resume", nil, nil)
	a.must(204, "POST", one+"/files/write", newForm(t, "/srv/data", "damaged"), nil)
	a.must(204, "DELETE", one, nil, nil)
	a.stop()

	entries, err := os.ReadDir(a.p.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(a.p.state, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	tar("--extract", "--gzip", "--sparse", "--xattrs", "--acls", "--numeric-owner", "--same-permissions", "--file", backup, "--directory", a.p.state)

	a.start()
	if a.must(200, "GET", one, nil, &b); b.Status != "paused" {
		t.Errorf("the restored sandbox is %s", b.Status)
	}
	a.must(200, "POST", one+"/resume", nil, nil)
	var got string
	if a.must(200, "POST", one+"/files/read", map[string]any{"path": "/srv/data"}, &got); got != "precious" {
		t.Errorf("the restored file has %q", got)
	}
	var running struct{ Processes []struct{ Tag string } }
	if a.must(200, "GET", one+"/processes", nil, &running); len(running.Processes) != 1 || running.Processes[0].Tag != "sleeps" {
		t.Errorf("the restored programs are %+v", running)
	}
	a.must(204, "DELETE", one, nil, nil)
	a.stop()
}
