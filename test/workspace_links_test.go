//go:build machine

package test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLinks checks the table of docs/files.md: which operations follow a link to a file or to a
// folder, and that none leads out of the workspace.
func TestLinks(t *testing.T) {
	t.Parallel()
	sameForAll(t)
	p := workspaces(t)
	id := p.create()
	p.shell(id, "mkdir -p folder/below; echo old >folder/text; ln -s folder to-folder; ln -s folder/text to-file; ln -s folder/new dangling; ln -s ../etc out; ln -s /workspace/folder absolute; ln -s to-folder/below two")
	is := func(path, want string) {
		t.Helper()
		if got := p.shell(id, "cat "+path); got != want {
			t.Errorf("%s has %q, not %q", path, got, want)
		}
	}
	if got := p.must("workspace", "file", "read", id, "to-file"); got != "old\n" {
		t.Errorf("through a link: %q", got)
	}
	for path, target := range map[string]string{"to-file": "folder/text", "dangling": "folder/new", "to-folder/made": "folder/made", "two/made": "folder/below/made"} {
		p.must("workspace", "file", "write", id, path, "--text", path)
		is(target, path)
	}
	for _, path := range []string{"out/x", "out", "absolute/x"} {
		p.fails(6, "leads out of the workspace", "workspace", "file", "write", id, path, "--text", "x")
	}

	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "pushed"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for dest, target := range map[string]string{"to-folder": "folder/pushed", "to-folder/more/deep": "folder/more/deep/pushed", "two": "folder/below/pushed"} {
		p.must("workspace", "sync", "push", id, host, "--dest", dest)
		is(target, "x")
	}
	for _, dest := range []string{"out", "out/x", "absolute"} {
		p.fails(6, "leads out of the workspace", "workspace", "sync", "push", id, host, "--dest", dest)
	}
	if err := os.Mkdir(filepath.Join(host, "to-folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "to-folder/x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.fails(5, "to-folder", "workspace", "sync", "push", id, host)
	patch := "--- /dev/null\n+++ b/to-folder/patched\n@@ -0,0 +1 @@\n+x\n"
	p.fails(5, `"to-folder" above it is a symbolic link, which is not followed`, "workspace", "patch", "apply", id, "--patch", patch)

	kept := p.shell(id, `for l in to-folder to-file dangling out absolute two; do readlink $l; done; ls folder`)
	if want := "folder\nfolder/text\nfolder/new\n../etc\n/workspace/folder\nto-folder/below\nbelow\nmade\nmore\nnew\npushed\ntext\n"; kept != want {
		t.Errorf("it has\n%s, not\n%s", kept, want)
	}
	p.must("workspace", "export", id, "to-folder/", "--output", filepath.Join(t.TempDir(), "out"))
}
