package patch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/patch"
)

func file(text string) difftest.Node { return difftest.Node{Mode: 0o644, Data: []byte(text)} }

// files returns a tree with the given files, which are pairs of path and content.
func files(contents ...string) difftest.Tree {
	t := difftest.Tree{}
	for i := 0; i < len(contents); i += 2 {
		t.Put(contents[i], file(contents[i+1]))
	}
	return t
}

const abc = "a\nb\nc\nd\ne\nf\ng\n"

// TestAgentPatches applies patches like those that agents write. The patches contain typical
// mistakes.
func TestAgentPatches(t *testing.T) {
	for _, c := range []struct {
		name, patch  string
		before, want difftest.Tree
	}{
		{"plain", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\ng\n")},
		{"no prefix", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\ng\n")},
		{"a prefix that is a directory", "--- a/f\n+++ a/f\n@@ -1 +1 @@\n-x\n+y\n", files("a/f", "x\n"), files("a/f", "y\n")},
		{"one prefix twice", "diff --git a/f b/f\n--- a/f\n+++ a/f\n@@ -1 +1 @@\n-x\n+y\n", files("f", "x\n"), files("f", "y\n")},
		{"other prefixes", "--- old/d/f\t2024-01-01 10:00:00\n+++ new/d/f\t2024-01-02 10:00:00\n@@ -1 +1 @@\n-x\n+y\n", files("d/f", "x\n"), files("d/f", "y\n")},
		{"another name before", "--- f.orig\n+++ f\n@@ -1 +1 @@\n-x\n+y\n", files("f", "x\n"), files("f", "y\n")},
		{"no line break at the end of the patch", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y", files("f", "x\n"), files("f", "y\n")},
		{"a byte order mark", "\ufeff--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y", files("f", "x\n"), files("f", "y\n")},
		{"words around it", "Here it is:\n\n```diff\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n```\n\nThat does:\n- this\n+ that\n", files("f", "x\n"), files("f", "y\n")},
		{"a mail", "From 1 Mon Sep 17\nSubject: x\n\n - a\n---\n f | 2 +-\n\ndiff --git a/f b/f\nindex 1111111..2222222 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n-- \n2.39.5\n\n",
			files("f", "x\n"), files("f", "y\n")},
		{"a mail with wrong counts", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-x\n+y\n-- \n2.39.5\n\n", files("f", "x\n"), files("f", "y\n")},
		{"a remark after a hunk", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n+ a remark\n- another\n  indented\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\ng\n")},
		{"a remark after a hunk without context", "--- a/f\n+++ b/f\n@@ -7 +7 @@\n-g\n+G\n+ a remark\n", files("f", abc), files("f", "a\nb\nc\nd\ne\nf\nG\n")},
		{"a rule between two files", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n---\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+z\n", files("f", "x\nz\n", "g", "x\n"), files("f", "y\nz\n", "g", "z\n")},
		{"a remark after a new file", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n- that is all\n", files(), files("f", "x\n")},
		{"counts too small before another hunk", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n@@ -5,3 +5,3 @@\n e\n-f\n+F\n g\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nF\ng\n")},
		{"counts too large", "--- a/f\n+++ b/f\n@@ -1,9 +1,7 @@\n a\n-b\n+B\n c\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\ng\n")},
		{"counts too small", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n d\n-e\n f\n", files("f", abc), files("f", "a\nB\nc\nd\nf\ng\n")},
		{"counts too large before another hunk", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n@@ -6,1 +6,9 @@\n f\n+F\n g\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\nF\ng\n")},
		{"counts too large before another file", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-x\n+y\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+z\n", files("f", "x\n", "g", "x\n"), files("f", "y\n", "g", "z\n")},
		{"counts too large before another file of git", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-x\n+y\n\ndiff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+z\n", files("f", "x\n", "g", "x\n"),
			files("f", "y\n", "g", "z\n")},
		{"empty lines at the end", "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n\n\n", files("f", abc), files("f", "a\nB\nc\nd\ne\nf\ng\n")},
		{"context that lost its space", "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n a\n\n+x\n b\n", files("f", "a\n\nb\n"), files("f", "a\n\nx\nb\n")},
		{"lines that look like headers", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n select\n--- a/x\n+++ b/x\n from\n", files("f", "select\n-- a/x\nfrom\n"), files("f", "select\n++ b/x\nfrom\n")},
		{"another line number", "--- a/f\n+++ b/f\n@@ -90,3 +90,3 @@\n d\n-e\n+E\n f\n", files("f", abc), files("f", "a\nb\nc\nd\nE\nf\ng\n")},
		{"line number 0", "--- a/f\n+++ b/f\n@@ -0,0 +0,0 @@\n d\n-e\n+E\n f\n", files("f", abc), files("f", "a\nb\nc\nd\nE\nf\ng\n")},
		{"all line numbers 1", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n b\n-c\n+C\n d\n@@ -1,3 +1,3 @@\n e\n-f\n+F\n g\n", files("f", abc), files("f", "a\nb\nC\nd\ne\nF\ng\n")},
		{"as far off as the hunk before", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -4,3 +4,3 @@\n x\n-y\n+Y\n -\n", files("f", "0\n0\na\nb\nc\nx\ny\n-\nx\ny\n-\n"), files("f", "0\n0\na\nB\nc\nx\nY\n-\nx\ny\n-\n")},
		{"the line of several that is named", "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-x\n+y\n x\n", files("f", "x\nx\nx\nx\n"), files("f", "x\nx\ny\nx\n")},
		{"at the end, with another line number", "--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@\n f\n g\n+new\n", files("f", abc), files("f", abc+"new\n")},
		{"at the start", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n+new\n a\n b\n", files("f", abc), files("f", "new\n"+abc)},
		{"at the end without context", "--- a/f\n+++ b/f\n@@ -7,0 +8 @@\n+new\n", files("f", abc), files("f", abc+"new\n")},
		{"the last line without context", "--- a/f\n+++ b/f\n@@ -7 +7 @@\n-g\n+G\n", files("f", abc), files("f", "a\nb\nc\nd\ne\nf\nG\n")},
		{"new", "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,2 @@\n+x\n+y\n", files(), files("d/f", "x\ny\n")},
		{"new, with the wrong count", "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,7 @@\n+x\n+y\n", files(), files("d/f", "x\ny\n")},
		{"new, of git without a mode", "diff --git a/f b/f\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), files("f", "x\n")},
		{"new, but not called so", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), files("f", "x\n")},
		{"new, by its time", "--- a/f\t1970-01-01 01:00:00.000000000 +0100\n+++ b/f\t2024-01-01 00:00:00.5 +0100\n@@ -0,0 +1 @@\n+x\n", files(), files("f", "x\n")},
		{"new, without a prefix", "diff --git b/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), files("b/f", "x\n")},
		{"new and executable", "diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), difftest.Tree{"f": {Mode: 0o755, Data: []byte("x\n")}}},
		{"new and empty", "diff --git a/f b/f\nnew file mode 100644\n", files(), files("f", "")},
		{"into an empty file", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files("f", ""), files("f", "x\n")},
		{"deleted", "--- a/d/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n", files("d/f", "x\ny\n", "g", ""), files("g", "")},
		{"deleted, by its time", "--- a/f\t2024-01-01 00:00:00 +0000\n+++ b/f\t1970-01-01 00:00:00 +0000\n@@ -1 +0,0 @@\n-x\n", files("f", "x\n"), files()},
		{"emptied, not deleted", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n", files("f", "x\n"), files("f", "")},
		{"names between quotes", "--- \"a/t\\tab \\303\\274 \\\"\"\n+++ \"b/t\\tab \\303\\274 \\\"\"\n@@ -1 +1 @@\n-x\n+y\n", files("t\tab ü \"", "x\n"), files("t\tab ü \"", "y\n")},
		{"renamed", "diff --git a/f b/d/g\nrename from f\nrename to d/g\n", files("f", "x\n"), files("d/g", "x\n")},
		{"renamed and changed", "diff --git a/f b/g\nsimilarity index 50%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", files("f", "x\n"), files("g", "y\n")},
		{"swapped", "diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/g b/f\nrename from g\nrename to f\n", files("f", "1", "g", "2"), files("f", "2", "g", "1")},
		{"copied, and changed in between", "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\ndiff --git a/f b/g\ncopy from f\ncopy to g\n", files("f", "x\n"), files("f", "y\n", "g", "x\n")},
		{"twice", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+z\n", files("f", "x\n"), files("f", "z\n")},
		{"created and then changed", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", files(), files("f", "y\n")},
		{"a file becomes a directory", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+y\n", files("f", "x\n"), files("f/g", "y\n")},
		{"a directory becomes a file", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+y\n--- a/f/g/h\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files("f/g/h", "x\n"), files("f", "y\n")},
		{"a file for an empty directory", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+y\n", difftest.Tree{"f": {Mode: fs.ModeDir | 0o755}}, files("f", "y\n")},
		{"a directory with more in it stays", "--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files("d/f", "x\n", "d/g", ""), files("d/g", "")},
		{"a directory that something new is in stays", "--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/d/g\n@@ -0,0 +1 @@\n+x\n", files("d/f", "x\n"), files("d/g", "x\n")},
		{"a mode", "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", difftest.Tree{"f": {Mode: 0o640, Data: []byte("x")}}, difftest.Tree{"f": {Mode: 0o750, Data: []byte("x")}}},
		{"a mode and content", "diff --git a/f b/f\nold mode 100755\nnew mode 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", difftest.Tree{"f": {Mode: 0o755, Data: []byte("x\n")}}, files("f", "y\n")},
		{"other bits stay", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", difftest.Tree{"f": {Mode: 0o4711&^0o4000 | fs.ModeSetuid, Data: []byte("x\n")}}, difftest.Tree{"f": {Mode: 0o711 | fs.ModeSetuid, Data: []byte("y\n")}}},
		{"a link", "diff --git a/l b/l\nindex 1111111..2222222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-here\n\\ No newline at end of file\n+there\n\\ No newline at end of file\n",
			difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "here"}}, difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "there"}}},
		{"a new link", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../x\n\\ No newline at end of file\n", files(), difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "../x"}}},
		{"a link for a file", "diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+t\n\\ No newline at end of file\n",
			files("l", "x\n"), difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "t"}}},
		{"a file below a former link", "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-d\n\\ No newline at end of file\n--- /dev/null\n+++ b/l/f\n@@ -0,0 +1 @@\n+x\n",
			difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "d"}}, files("l/f", "x\n")},
	} {
		got, _, err := check(t, c.patch, c.before)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if said := difftest.Unequal(got, c.want); said != "" {
			t.Errorf("%s: %s", c.name, said)
		}
	}
}

// TestLineEndings applies patches to files that have different line ends.
func TestLineEndings(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	hunk := "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+BB\n c\n"
	for _, c := range []struct{ name, patch, before, want string }{
		{"LF in CR LF", "--- a/f\n+++ b/f\n" + hunk, crlf(abc), crlf("a\nB\nBB\nc\nd\ne\nf\ng\n")},
		{"all in CR LF, of a file in LF", crlf("--- a/f\n+++ b/f\n" + hunk), abc, "a\nB\nBB\nc\nd\ne\nf\ng\n"},
		{"all in CR LF, of a file in CR LF", crlf("--- a/f\n+++ b/f\n" + hunk), crlf(abc), crlf("a\nB\nBB\nc\nd\ne\nf\ng\n")},
		{"git's of a file in CR LF", "--- a/f\n+++ b/f\n" + "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n", crlf(abc), crlf("a\nB\nc\nd\ne\nf\ng\n")},
		{"CR LF in LF", "--- a/f\n+++ b/f\n" + "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n", abc, "a\nB\nc\nd\ne\nf\ng\n"},
		{"one line of CR LF", "--- a/f\n+++ b/f\n" + hunk, "a\nb\r\nc\n", "a\nB\r\nBB\r\nc\n"},
		{"to CR LF", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\r\n", "a\n", "a\r\n"},
		{"to LF", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+a\n", "a\r\n", "a\n"},
		{"a CR within a line", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\rb\n+a\rc\n", "a\rb\n", "a\rc\n"},
		{"a last line break is made", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a", "a\n"},
		{"a last line break is taken", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", "a\n", "a"},
		{"both without", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n z\n\\ No newline at end of file\n", "a\nz", "b\nz"},
		{"after a last line without one", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n z\n+new\n", "a\nz", "a\nz\nnew\n"},
		{"after a last line without one, in CR LF", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n z\n+new\n", "a\r\nz", "a\r\nz\r\nnew\r\n"},
		{"in place of a last line without one", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-z\n+new\n", "a\nz", "a\nnew\n"},
		{"context without one stays so", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n z\n", "a\nz", "b\nz"},
	} {
		got, plan, err := check(t, c.patch, files("f", c.before))
		if err != nil || string(got["f"].Data) != c.want || plan.Summary.HunksMoved != 0 {
			t.Errorf("%s: %q, %v, not %q", c.name, got["f"].Data, err, c.want)
		}
	}
	new := "--- /dev/null\r\n+++ b/f\r\n@@ -0,0 +1,2 @@\r\n+x\r\n+y\r\n"
	if got, _, err := check(t, new, files()); err != nil || string(got["f"].Data) != "x\ny\n" {
		t.Errorf("a new file in a patch that was converted: %q, %v", got["f"].Data, err)
	}
	if got, _, err := check(t, "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+x\r\n+y\r\n", files()); err != nil || string(got["f"].Data) != "x\r\ny\r\n" {
		t.Errorf("a new file in CR LF: %q, %v", got["f"].Data, err)
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x\n", 9<<20)
	many := strings.Repeat("\n", patch.MaxLines+1)
	modify := "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
	var files10k, hunks strings.Builder
	for i := range patch.MaxFiles + 1 {
		fmt.Fprintf(&files10k, "diff --git a/f%d b/f%d\nnew file mode 100644\n", i, i)
	}
	hunks.WriteString("--- a/f\n+++ b/f\n" + strings.Repeat("@@ -1 +1 @@\n-x\n+y\n", patch.MaxHunks+1))
	var copies strings.Builder
	for i := range patch.MaxContent/(9<<20) + 1 {
		fmt.Fprintf(&copies, "diff --git a/f b/g%d\ncopy from f\ncopy to g%d\n", i, i)
	}
	for _, c := range []struct {
		name, patch, file string
	}{
		{"a large patch", modify + strings.Repeat("x", patch.MaxPatch), "x\n"},
		{"a large file", modify, long},
		{"many lines", modify, many},
		{"many files", files10k.String(), ""},
		{"many hunks", hunks.String(), "x\n"},
		{"much content", copies.String(), long[:9<<20]},
	} {
		if _, _, err := check(t, c.patch, files("f", c.file)); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := check(t, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", files("f", long)); err != nil {
		t.Errorf("a mode of a large file: %v", err)
	}
}

// TestTreeErrors checks that Check returns errors from the tree with their kinds.
func TestTreeErrors(t *testing.T) {
	broken := fault.New(fault.Unavailable, "read", "x", "gone")
	text := []byte("--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
	for _, method := range []string{"stat", "read", "list"} {
		_, err := patch.Check(context.Background(), text, failing{tree{t, files("d/f", "x\n")}, method, broken})
		if !errors.Is(err, broken) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", method, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := patch.Check(ctx, text, tree{t, files()}); fault.KindOf(err) != fault.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// failing is a tree for which one method always fails.
type failing struct {
	tree
	method string
	err    error
}

func (f failing) Stat(ctx context.Context, p string) (patch.Entry, error) {
	if f.method == "stat" {
		return patch.Entry{}, f.err
	}
	return f.tree.Stat(ctx, p)
}

func (f failing) Read(ctx context.Context, p string) ([]byte, error) {
	if f.method == "read" {
		return nil, f.err
	}
	return f.tree.Read(ctx, p)
}

func (f failing) List(ctx context.Context, p string) ([]string, error) {
	if f.method == "list" {
		return nil, f.err
	}
	return f.tree.List(ctx, p)
}

func TestSummary(t *testing.T) {
	before := files("f", abc, "g", "x\n", "h", "1\n2\n", "i", "i")
	text := "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -3,3 +3,4 @@\n a\n-b\n+B\n+BB\n c\n" +
		"diff --git a/g b/gg\nrename from g\nrename to gg\n" +
		"diff --git a/h b/h\ndeleted file mode 100644\n--- a/h\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n" +
		"diff --git a/i b/ii\ncopy from i\ncopy to ii\n" +
		"diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
	_, plan, err := check(t, text, maps.Clone(before))
	if err != nil {
		t.Fatal(err)
	}
	want := []patch.File{
		{Path: "f", Status: patch.Modified, LinesAdded: 2, LinesRemoved: 1, HunksMoved: 1},
		{Path: "gg", OldPath: "g", Status: patch.Renamed},
		{Path: "h", Status: patch.Deleted, LinesRemoved: 2},
		{Path: "ii", OldPath: "i", Status: patch.Copied},
		{Path: "n", Status: patch.Added, LinesAdded: 1},
	}
	if d := cmp.Diff(want, plan.Files); d != "" {
		t.Error(d)
	}
	sum := patch.Summary{FilesAdded: 1, FilesModified: 1, FilesDeleted: 1, FilesRenamed: 1, FilesCopied: 1, LinesAdded: 3, LinesRemoved: 3, HunksMoved: 1}
	if d := cmp.Diff(sum, plan.Summary); d != "" {
		t.Error(d)
	}
	var ops []string
	for _, o := range plan.Operations {
		ops = append(ops, string(o.Do)+" "+o.Path)
	}
	if d := cmp.Diff([]string{"remove h", "remove g", "write_file f", "write_file gg", "write_file ii", "write_file n"}, ops); d != "" {
		t.Error(d)
	}
}
