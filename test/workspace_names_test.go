//go:build machine

package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesThatAreNotUTF8 checks that each list in JSON has an escape for such a name, and that
// other commands take the escape as the path.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	sameForAll(t)
	p := workspaces(t)
	id := p.create()
	p.shell(id, `d=$(printf 'caf\351'); mkdir "$d"; echo hello >"$d/100%"; ln -s "$d" link; touch 'file:x' 'a%41' ü`)
	const below = "file:///workspace/caf%E9/100%25"
	paths := func(entries any) (all []string) {
		list, _ := entries.([]any)
		for _, e := range list {
			all = append(all, e.(map[string]any)["path"].(string))
		}
		return all
	}
	want := "/workspace/a%41 file:///workspace/caf%E9 " + below + " /workspace/file:x /workspace/link /workspace/ü"
	list := p.object("workspace", "file", "list", id, "--recursive")
	if got := strings.Join(paths(list["entries"]), " "); got != want {
		t.Errorf("the list has\n%s, not\n%s", got, want)
	}
	text, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(text), `"link_target":"file://caf%E9"`) {
		t.Errorf("the target of the link: %s, %v", text, err)
	}
	read := p.object("workspace", "file", "read", id, below)
	if read["content"] != "hello\n" || read["path"] != below {
		t.Errorf("it is read as %v", read)
	}
	if got := paths(p.object("workspace", "file", "list", id, "file://caf%E9")["entries"]); len(got) != 1 || got[0] != below {
		t.Errorf("the folder has %q", got)
	}
	diff := p.object("workspace", "diff", id)
	if got := strings.Join(paths(diff["entries"]), " "); !strings.Contains(got, "file://caf%E9/100%25") || strings.Contains(got, "\ufffd") {
		t.Errorf("the diff has %s", got)
	}
	p.must("workspace", "file", "write", id, below, "--text", "changed")
	out := filepath.Join(t.TempDir(), "out")
	p.must("workspace", "export", id, below, "--output", out)
	if got, _ := os.ReadFile(out); string(got) != "changed" {
		t.Errorf("the export has %q", got)
	}
	p.must("workspace", "cp", id+":"+below, out+"-copy")
	p.fails(2, "is not a path", "workspace", "file", "read", id, "file:///workspace/%zz")
	summary, _ := json.Marshal(p.object("workspace", "summary", id))
	if !strings.Contains(string(summary), below) {
		t.Errorf("the summary has no %s: %s", below, summary)
	}
	folder := t.TempDir()
	if got := strings.Join(paths(p.object("workspace", "sync", "pull", id, folder, "--dry-run")["entries"]), " "); !strings.Contains(got, "file://caf%E9/100%25") {
		t.Errorf("the pull has %s", got)
	}
	p.must("workspace", "stop", id)
	if got := strings.Join(paths(p.object("workspace", "disk", "list", id, "--recursive")["entries"]), " "); got != want {
		t.Errorf("the disk has\n%s, not\n%s", got, want)
	}
	if read := p.object("workspace", "disk", "read", id, below); read["content"] != "changed" {
		t.Errorf("the disk has %v", read)
	}
}
