package diff_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
)

// TestPatchOmitsPathsThatGitRejects checks that the patch omits paths that would make git reject
// the whole patch.
func TestPatchOmitsPathsThatGitRejects(t *testing.T) {
	difftest.NeedsGit(t)
	after := difftest.Tree{}
	for _, p := range []string{".git/config", "sub/.GIT/index", ".git", "a/git~1", ".git . ", ".git::$INDEX_ALLOCATION", `.git\x`, ".gitignore", ".github/x", "git", "git~12", ".gitmodules",
		`foo\.git`, `foo\.GIT . \x`, `x\git~1/y`, `\.git`, `d/\.git`, `\\.git`, "x:.git", `a\.gitignore`, "gi7eba~1", "gitmod~1"} {
		after.Put(p, file(p))
	}
	delete(after, ".git") // The directory below replaces this file.
	after.Put(".git", difftest.Node{Mode: fs.ModeDir | 0o755})
	for _, p := range []string{"a/.gitmodules", "b/.GITMODULES .", "c/.gitmodules:x", "d/gitmod~1", "d/GitMod~4 ", "d/gitmod~5", "e/gi7eba~1", "e/gi7eba~0", "e/GI~12345", "e/gi~1234",
		"e/~1234567", "e/~123456", "f/gi7ebx~1", `f/x\.gitmodules`, `f/\.gitmodules`, "g/gitmod~1/x", "h/.gitmodules/x", "i/.gitmodulesx", "j/.gitmodules :/x", `k/x\.gitmodules/x`} {
		after.Put(p, difftest.Node{Mode: fs.ModeSymlink, Link: "x"})
	}
	result, patch := compare(t, difftest.Tree{}, after, diff.Options{IncludeIgnored: true})
	taken := difftest.Tree{}
	for _, c := range result.Entries {
		if c.Kind != diff.Directory && !c.PatchOmitted {
			taken.Put(c.Path, after[c.Path])
		}
	}
	if len(taken) < 16 {
		t.Errorf("%v", taken)
	}
	dir := t.TempDir()
	if _, err := difftest.Git(dir, patch, "apply", "-"); err != nil {
		t.Fatal(err)
	}
	made, _ := difftest.Read(dir)
	if said := difftest.Unequal(made.Git(), taken.Git()); said != "" {
		t.Error(said)
	}
	for _, c := range result.Entries { // Git rejects each of the omitted paths.
		if c.PatchOmitted {
			_, one := compare(t, difftest.Tree{}, difftest.Tree{"x": after[c.Path]}, diff.Options{})
			quoted := strings.ReplaceAll(c.Path, `\`, `\\`)
			one = strings.NewReplacer("a/x", `"a/`+quoted+`"`, "b/x", `"b/`+quoted+`"`).Replace(one)
			if _, err := difftest.Git(t.TempDir(), one, "apply", "-"); err == nil || !strings.Contains(err.Error(), "invalid path") {
				t.Errorf("%q: %v", c.Path, err)
			}
		}
	}
}
