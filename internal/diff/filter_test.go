package diff_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func changed(r *diff.Result) (all []string) {
	for _, c := range r.Entries {
		all = append(all, c.Path)
	}
	return all
}

// TestIgnoredPathsAreOmitted checks which paths Compare ignores, and that it counts them.
func TestIgnoredPathsAreOmitted(t *testing.T) {
	folder := difftest.Node{Mode: fs.ModeDir | 0o755}
	before := difftest.Tree{
		".gitignore": file("*.log\n"), "old.log": file("1\n"), "gone.log": file("1\n"), "lib": folder, "lib/__pycache__": folder, "lib/__pycache__/a.pyc": file("1"),
	}
	after := difftest.Tree{
		".gitignore": file("*.log\n/build/\n"), "old.log": file("2\n"), "new.log": file("1\n"), "build": folder, "build/x": file("1\n"), "build/deep": folder,
		"build/deep/y": file("1\n"), "lib": folder, "lib/__pycache__": folder, "lib/__pycache__/a.pyc": file("2"),
		"lib/.gitignore": file("!keep.log\nbuild\n"), "lib/keep.log": file("1\n"), "lib/!first": file("1\n"), "lib/build": file("1\n"), "src": folder, "src/__pycache__": folder,
		"src/__pycache__/b.pyc": file("1"), "src/a.py": file("1\n"),
	}
	got, patch := compare(t, before, after, diff.Options{})
	want := []string{".gitignore", "gone.log", "lib/!first", "lib/.gitignore", "lib/keep.log", "old.log", "src", "src/a.py"}
	if !slices.Equal(changed(got), want) {
		t.Errorf("%q", changed(got))
	}
	if got.Summary.Ignored != 9 || got.Summary.Added != 5 || strings.Contains(patch, "pyc") || strings.Contains(patch, "build/x") {
		t.Errorf("%+v\n%s", got.Summary, patch)
	}
	all, _ := compare(t, before, after, diff.Options{IncludeIgnored: true})
	if all.Summary.Ignored != 0 || len(all.Entries) != len(want)+9 {
		t.Errorf("%+v, %q", all.Summary, changed(all))
	}
}

// TestHostileIgnoreFiles checks that invalid .gitignore files do not exclude any paths.
func TestHostileIgnoreFiles(t *testing.T) {
	for name, rules := range map[string]difftest.Node{
		"a folder": {Mode: fs.ModeDir | 0o755}, "a link": {Mode: fs.ModeSymlink | 0o777, Link: "rules"}, "much": file(strings.Repeat("*\n", 1<<20)), "bytes": file("\x00*\n\xff"),
	} {
		got, _ := compare(t, difftest.Tree{}, difftest.Tree{".gitignore": rules, "rules": file("*\n"), "x": file("1\n")}, diff.Options{})
		if !slices.Equal(changed(got), []string{".gitignore", "rules", "x"}) {
			t.Errorf("%s: %q", name, changed(got))
		}
	}
}

// TestPaths compares only selected paths.
func TestPaths(t *testing.T) {
	folder := difftest.Node{Mode: fs.ModeDir | 0o755}
	before := difftest.Tree{"a": folder, "a/x": file("1\n"), "b": file("1\n"), "gone": file("1\n")}
	after := difftest.Tree{"a": folder, "a/x": file("2\n"), "a/y": file("1\n"), "ab": file("1\n"), "b": file("2\n")}
	for _, c := range []struct{ paths, want []string }{
		{[]string{"a"}, []string{"a/x", "a/y"}}, {[]string{"a/y", "b"}, []string{"a/y", "b"}}, {[]string{"gone"}, []string{"gone"}},
		{[]string{"", "a"}, []string{"a/x", "a/y", "ab", "b", "gone"}},
	} {
		if got, _ := compare(t, before, after, diff.Options{Paths: c.paths}); !slices.Equal(changed(got), c.want) {
			t.Errorf("%q: %q", c.paths, changed(got))
		}
	}
	_, err := diff.Compare(t.Context(), before, after, nil, diff.Options{Paths: []string{"a", "none"}})
	if fault.KindOf(err) != fault.NotFound || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `"none"`) {
		t.Error(err)
	}
}
