//go:build machine

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPatchesOfLinks checks that patches change links in the same way as git, and do not follow
// them. The diffs of changed links, and of a folder that a file has replaced, must apply to the
// original.
func TestPatchesOfLinks(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	seed := t.TempDir()
	script := `set -e; cd "$1"; mkdir folder replaced; printf 'x\n' >replaced/x; printf 'text\n' >file; printf 'a\nb\nc\n' >folder/text
ln -s file to-file; ln -s folder to-folder; ln -s none dangling; ln -s loop loop; ln -s /etc/hostname absolute; ln -s ../../etc/passwd out
ln -s file deleted; ln -s folder moved; ln -s folder to-be-file; printf 'x\n' >to-be-link`
	if out, err := exec.Command("bash", "-c", script, "-", seed).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := p.create("--seed-path", seed)
	before := p.shell(id, listing)
	p.shell(id, `set -e; for l in to-file to-folder dangling loop absolute out; do ln -sfn ./$(readlink $l) $l; done
rm -r deleted to-be-file replaced to-be-link; mv moved folder/arrived; echo new >to-be-file; echo new >replaced; ln -s file to-be-link; { echo first; cat folder/text; echo last; } >t; mv t folder/text`)
	want := p.shell(id, listing)
	d := p.object("workspace", "diff", id)
	file := filepath.Join(t.TempDir(), "links.patch")
	if err := os.WriteFile(file, []byte(d["patch"].(string)), 0o644); err != nil {
		t.Fatal(err)
	}
	p.must("workspace", "reset", id)
	if got := p.shell(id, listing); got != before {
		t.Fatalf("reset to\n%s\nnot\n%s", got, before)
	}
	a := p.object("workspace", "patch", "apply", id, "--patch-file", file)
	if got := p.shell(id, listing); got != want {
		t.Errorf("the diff %v made\n%s\nnot\n%s", a["entries"], got, want)
	}
	p.fails(5, "", "workspace", "patch", "apply", id, "--patch-file", file)

	// A patch renames a link, and other patches write through a link.
	p.must("workspace", "patch", "apply", id, "--patch", "diff --git a/loop b/folder/round\nrename from loop\nrename to folder/round\n")
	if got := p.shell(id, "readlink folder/round; ls -d loop 2>/dev/null || echo gone"); got != "./loop\ngone\n" {
		t.Errorf("renamed: %q", got)
	}
	want = p.shell(id, listing)
	for path, text := range map[string]string{
		"to-folder/text": "--- a/to-folder/text\n+++ b/to-folder/text\n@@ -1,3 +1,3 @@\n first\n-a\n+A\n b\n",
		"to-folder/new":  "--- /dev/null\n+++ b/to-folder/new\n@@ -0,0 +1 @@\n+x\n",
		"to-file":        "--- a/to-file\n+++ b/to-file\n@@ -1 +1 @@\n-text\n+other\n",
	} {
		p.fails(5, "symbolic link", "workspace", "patch", "apply", id, "--patch", text)
		if got := p.shell(id, listing); got != want {
			t.Errorf("%s: it made\n%s\nnot\n%s", path, got, want)
		}
	}
}

// TestPatchTwice checks that a hunk at the start or at the end of a file is not applied a second
// time.
func TestPatchTwice(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	seed := t.TempDir()
	if err := os.WriteFile(filepath.Join(seed, "f"), []byte("a\nb\nc\nd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := p.create("--seed-path", seed)
	want := "a\nb\nc\nd\n"
	for i, c := range []struct{ hunk, before, after string }{
		{"@@ -1,3 +1,4 @@\n+start\n a\n b\n c\n", "start\n", ""},
		{"@@ -4,2 +4,3 @@\n c\n d\n+end\n", "", "end\n"},
	} {
		text := fmt.Sprintf("--- a/f\n+++ b/f\n%s", c.hunk)
		p.must("workspace", "patch", "apply", id, "--patch", text)
		want = c.before + want + c.after
		p.fails(5, "f", "workspace", "patch", "apply", id, "--patch", text)
		if got := p.shell(id, "cat f"); got != want {
			t.Errorf("hunk %d made %q, not %q", i, got, want)
		}
	}
}
