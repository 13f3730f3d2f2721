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

// files is a tree of files with these contents, by path.
func files(contents ...string) difftest.Tree {
	t := difftest.Tree{}
	for i := 0; i < len(contents); i += 2 {
		t.Put(contents[i], file(contents[i+1]))
	}
	return t
}

const abc = "a\nb\nc\nd\ne\nf\ng\n"

// TestWhatAgentsWrite has patches of which no program is the author, and what is meant.
func TestWhatAgentsWrite(t *testing.T) {
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
		{"a file below what was a link", "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-d\n\\ No newline at end of file\n--- /dev/null\n+++ b/l/f\n@@ -0,0 +1 @@\n+x\n",
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

// TestEndsOfLines has patches whose lines end in other ways than those of the file.
func TestEndsOfLines(t *testing.T) {
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

// TestConflicts has patches that do not fit, and what is said of them.
func TestConflicts(t *testing.T) {
	f := "--- a/f\n+++ b/f\n"
	link := difftest.Tree{"l": {Mode: fs.ModeSymlink | 0o777, Link: "d"}, "d": {Mode: fs.ModeDir | 0o755}, "d/f": file("x\n")}
	numbered := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i+1)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, patch string
		before      difftest.Tree
		want        patch.Conflict
	}{
		{"another line", f + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -5,3 +5,3 @@ func x\n e\n-F\n+FF\n g\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -5,3 +5,3 @@ func x", Line: 5, Reason: `does not match line 6: it expects "F" and finds "f"`, Expected: []string{"e", "F", "g"}, Found: []string{"e", "f", "g"}}},
		{"another line, far from where the header says", f + "@@ -2,4 +2,3 @@\n line 41\n line 42\n-line forty-three\n line 44\n", files("f", numbered(60)),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,4 +2,3 @@", Line: 42, Reason: `does not match line 43: it expects "line forty-three" and finds "line 43"`,
				Expected: []string{"line 42", "line forty-three", "line 44"}, Found: []string{"line 42", "line 43", "line 44"}}},
		{"nothing like it", f + "@@ -2,2 +2,1 @@\n x\n-\x1b[2Jy\tz\xff\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,2 +2,1 @@", Line: 2, Reason: `does not match line 2: it expects "x" and finds "b"`, Expected: []string{"x", "\ufffd[2Jy\tz\ufffd"}, Found: []string{"b", "c"}}},
		{"beyond the end", f + "@@ -7,2 +7,1 @@\n g\n-h\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -7,2 +7,1 @@", Line: 7, Reason: `does not match: it expects "h" where the file ends, after line 7`, Expected: []string{"g", "h"}, Found: []string{"g"}}},
		{"an empty file", f + "@@ -1 +1 @@\n-x\n+y\n", files("f", ""),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1 +1 @@", Line: 1, Reason: `does not match: it expects "x" where the file ends, after line 0`, Expected: []string{"x"}, Found: []string{}}},
		{"an end that is none", f + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,2 @@", Line: 1, Reason: "does not match: it ends the file at line 2, which goes on", Expected: []string{"a", "b"}, Found: []string{"a", "b"}}},
		{"several places", f + "@@ -19,2 +19,2 @@\n-x\n+y\n z\n", files("f", "x\nz\nx\nz\nx\nz\nx\nz\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -19,2 +19,2 @@", Reason: "does not clearly belong to line 19: it matches in more than one place (1, 3, 5, 7), and needs more lines of context"}},
		{"no context", f + "@@ -2,0 +3 @@\n+x\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,0 +3 @@", Reason: "has neither context nor removed lines to be found by, and line 2 is not the end of the file: diff with context, not with -U0"}},
		{"the wrong order", f + "@@ -4,3 +4,3 @@\n d\n-e\n+E\n f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -1,3 +1,3 @@", Reason: "matches only at line 1, before the hunk before it: hunks come in the order of the file"}},
		{"-U0, within the file", f + "@@ -3 +3 @@\n-c\n+C\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3 +3 @@", Line: 3, Expected: []string{"c"}, Found: []string{"c"}, Reason: "has no context, and line 3, where it matches, is not surely its place: diff with context, not with -U0"}},
		{"-U0, at the end but not called so", f + "@@ -3 +3 @@\n-x\n+y\n", files("f", "x\nx\nx\nx\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3 +3 @@", Line: 3, Expected: []string{"x"}, Found: []string{"x"}, Reason: "has no context, and line 3, where it matches, is not surely its place: diff with context, not with -U0"}},
		{"no context before", f + "@@ -1,2 +1,3 @@\n+new\n c\n d\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Line: 3, Expected: []string{"c", "d"}, Found: []string{"c", "d"}, Reason: "has no context before its changes, so it belongs to the start of the file, and it matches at line 3"}},
		{"no context after", f + "@@ -1,2 +1,3 @@\n a\n b\n+new\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Line: 1, Expected: []string{"a", "b"}, Found: []string{"a", "b"}, Reason: "has no context after its changes, so it belongs to the end of the file, and it matches at line 1"}},
		{"applied at the start already", f + "@@ -1,2 +1,3 @@\n+new\n a\n b\n", files("f", "new\n"+abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Reason: "is applied already: line 1 on is as it would be after it"}},
		{"applied at the end already", f + "@@ -6,2 +6,3 @@\n f\n g\n+new\n", files("f", abc+"new\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -6,2 +6,3 @@", Reason: "is applied already: line 6 on is as it would be after it"}},
		{"applied already, without context before", f + "@@ -3,2 +3,3 @@\n+new\n c\n d\n", files("f", "a\nb\nnew\nc\nd\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3,2 +3,3 @@", Reason: "is applied already: line 3 on is as it would be after it"}},
		{"applied already, with the same lines elsewhere", f + "@@ -1,3 +1,4 @@\n a\n+new\n b\n c\n", files("f", "a\nnew\nb\nc\n-\na\nb\nc\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,3 +1,4 @@", Reason: "is applied already: line 1 on is as it would be after it"}},
		{"headers that name two places", f + "@@ -4,3 +1,3 @@\n x\n-y\n+z\n x\n", files("f", "x\ny\nx\nx\ny\nx\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -4,3 +1,3 @@", Reason: "does not clearly belong to line 4: it matches in more than one place (1, 4), and needs more lines of context"}},
		{"as far off as the hunk before, and where it says", f + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -7,3 +7,3 @@\n x\n-y\n+Y\n z\n", files("f", "0\n0\n0\na\nb\nc\nx\ny\nz\nx\ny\nz\n"),
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -7,3 +7,3 @@", Reason: "does not clearly belong to line 7: it matches in more than one place (7, 10), and needs more lines of context"}},
		{"white space counts", f + "@@ -1 +1 @@\n-\tx\n+y\n", files("f", "    x\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1 +1 @@", Line: 1, Reason: `does not match line 1: it expects "\tx" and finds "    x"`, Expected: []string{"\tx"}, Found: []string{"    x"}}},
		{"missing", f + "@@ -1 +1 @@\n-x\n+y\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"missing, to be deleted", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"missing, to be renamed", "diff --git a/f b/g\nrename from f\nrename to g\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"there already", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files("f", "x\n"), patch.Conflict{Path: "f", Reason: "it exists already"}},
		{"there already, for a rename", "diff --git a/f b/g\nrename from f\nrename to g\n", files("f", "", "g", ""), patch.Conflict{Path: "g", Reason: "it exists already"}},
		{"there already, for a copy", "diff --git a/f b/g\ncopy from f\ncopy to g\n", files("f", "", "g", ""), patch.Conflict{Path: "g", Reason: "it exists already"}},
		{"a directory in the way", "--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n", files("d/f", ""), patch.Conflict{Path: "d", Reason: "it is a directory, which does not become empty"}},
		{"a directory that keeps something", "--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files("d/f", "x\n", "d/g", ""), patch.Conflict{Path: "d", Reason: "it is a directory, which does not become empty"}},
		{"below a file", "--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+x\n", files("f", ""), patch.Conflict{Path: "f/g", Reason: `"f" above it is no directory`}},
		{"below a new file", "--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+x\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), patch.Conflict{Path: "f", Reason: "it can't be a file and have files in it"}},
		{"through a link", "--- a/l/f\n+++ b/l/f\n@@ -1 +1 @@\n-x\n+y\n", link, patch.Conflict{Path: "l/f", Reason: `"l" above it is a symbolic link, which a patch does not follow`}},
		{"created through a link", "--- /dev/null\n+++ b/l/g\n@@ -0,0 +1 @@\n+x\n", link, patch.Conflict{Path: "l/g", Reason: `"l" above it is a symbolic link, which a patch does not follow`}},
		{"a link as a file", "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-d\n+e\n", link, patch.Conflict{Path: "l", Hunk: 1, Header: "@@ -1 +1 @@", Reason: `does not match: this is a symbolic link, whose one line is its target "d", with "\ No newline at end of file" after it`}},
		{"a mode for a link", "diff --git a/l b/l\nold mode 100644\nnew mode 100755\n", link, patch.Conflict{Path: "l", Reason: "it is a symbolic link, and the patch is for a file"}},
		{"a file as a link", "diff --git a/f b/f\nindex 1111111..2222222 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-d\n+e\n", files("f", "d\n"), patch.Conflict{Path: "f", Reason: "it is a file, and the patch is for a symbolic link"}},
		{"a directory", "--- a/d\n+++ b/d\n@@ -1 +1 @@\n-d\n+e\n", link, patch.Conflict{Path: "d", Reason: "it is neither a file nor a symbolic link"}},
		{"more than is deleted", "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +0,0 @@", Line: 1, Expected: []string{"a", "b"}, Found: []string{"a", "b"}, Reason: "removes 2 lines and leaves none, and the file has 7"}},
		{"deleted as if it were empty", "diff --git a/f b/f\ndeleted file mode 100644\n", files("f", abc), patch.Conflict{Path: "f", Reason: "it has more content than the patch deletes"}},
	} {
		_, _, err := check(t, c.patch, c.before)
		var got *patch.Conflict
		if !errors.As(err, &got) || fault.KindOf(err) != fault.Precondition {
			t.Errorf("%s: %v", c.name, err)
		} else if d := cmp.Diff(c.want, *got); d != "" {
			t.Errorf("%s: %v\n%s", c.name, err, d)
		}
	}
	_, _, err := check(t, f+"@@ -1 +1 @@\n-x\n+y\n", files("f", "z\n"))
	if want := `apply patch "f": hunk 1 (@@ -1 +1 @@) does not match line 1: it expects "x" and finds "z"`; err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestAConflictIsBounded: what it shows is not all that there is.
func TestAConflictIsBounded(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	_, _, err := check(t, "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@ "+long+"\n-"+long+"\n"+strings.Repeat("-x\n", 50)+"\n", files("f", strings.Repeat(long+"y\n", 60)))
	var c *patch.Conflict
	if !errors.As(err, &c) {
		t.Fatal(err)
	}
	if len(c.Expected) != 7 || len(c.Found) != 7 || len(c.Expected[0]) > 500 || len(c.Found[0]) > 500 || len(c.Reason) > 500 || len(c.Header) > 250 {
		t.Errorf("%+v", c)
	}
}

// TestPatchesThatMakeNoSense are refused with the number of a line, whatever the tree.
func TestPatchesThatMakeNoSense(t *testing.T) {
	f := "--- a/f\n+++ b/f\n"
	git := "diff --git a/f b/f\n"
	index := "index 0000000000000000000000000000000000000000..78981922613b2afb6025042ff6bd878ac1994e85 100644\n"
	for name, c := range map[string]struct {
		patch string
		line  int // 0 for none
	}{
		"nothing":                       {"", 0},
		"words":                         {"please change f\n", 0},
		"another form":                  {"*** Begin Patch\n*** Update File: f\n-x\n+y\n*** End Patch\n", 0},
		"names alone":                   {f, 3},
		"names of git alone":            {git + f + "diff --git a/g b/g\n", 4},
		"git's header alone":            {"\n" + git, 2},
		"a hunk alone":                  {"@@ -1 +1 @@\n-x\n+y\n", 1},
		"a hunk after an empty one":     {f + "@@ -1 +1 @@\n-x\n+y\nfoo\n@@ what\n", 7},
		"no numbers":                    {f + "@@ ... @@\n-x\n+y\n", 3},
		"an unfinished header":          {f + "@@ -1,3 +1,3\n-x\n+y\n", 3},
		"a huge number":                 {f + "@@ -99999999999999999999 +1 @@\n-x\n+y\n", 3},
		"no change":                     {f + "@@ -1,2 +1,2 @@\n a\n b\n", 3},
		"no lines":                      {f + "@@ -1,2 +1,2 @@\n", 3},
		"a line without its sign":       {f + "@@ -1,4 +1,4 @@\n a\n-b\n+B\nc\n+D\n d\n", 7},
		"an end before any line":        {f + "@@ -1,2 +1,2 @@\n\\ No newline at end of file\n-x\n+y\n", 4},
		"up":                            {"--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"up and down":                   {"--- a/d/../f\n+++ b/d/../f\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"absolute":                      {"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"absolute after a prefix":       {"--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a dot":                         {"--- a/./f\n+++ b/./f\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"up, between quotes":            {"--- \"a/\\056\\056/f\"\n+++ \"b/\\056\\056/f\"\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a zero byte":                   {"--- \"a/f\\000\"\n+++ \"b/f\\000\"\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a zero byte as it is":          {"--- a/f\x00\n+++ b/f\x00\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a long name":                   {"--- a/" + strings.Repeat("x", 256) + "\n+++ b/" + strings.Repeat("x", 256) + "\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a very long line":              {"--- a/" + strings.Repeat("x", 100_000) + "\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a directory":                   {"--- a/f/\n+++ b/f/\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"no name":                       {"--- \n+++ \n@@ -1 +1 @@\n-x\n+y\n", 1},
		"an open quote":                 {"--- \"a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"an unknown escape":             {"--- a/f\n+++ \"b/\\x66\"\n@@ -1 +1 @@\n-x\n+y\n", 2},
		"nothing on both sides":         {"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"renamed up":                    {git + "rename from f\nrename to ../f\n", 1},
		"renamed from up":               {git + "rename from ../f\nrename to f\n", 1},
		"half a rename":                 {git + "rename from f\n", 1},
		"renamed to itself":             {git + "rename from f\nrename to f\n", 1},
		"renamed and new":               {git + "new file mode 100644\nrename from f\nrename to g\n", 1},
		"new and deleted":               {git + "new file mode 100644\ndeleted file mode 100644\n", 1},
		"a directory's mode":            {git + "new file mode 040000\n", 2},
		"a submodule":                   {git + "new file mode 160000\n", 2},
		"a device":                      {git + "new file mode 020666\n", 2},
		"no mode":                       {git + "old mode rwx\nnew mode 100755\n", 2},
		"another type":                  {git + "old mode 100644\nnew mode 120000\n", 1},
		"a new file of old lines":       {"--- /dev/null\n+++ b/f\n@@ -1 +1,2 @@\n x\n+y\n", 3},
		"a deleted file with new lines": {"--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-x\n+y\n", 3},
		"a link to nothing":             {git + "new file mode 120000\n", 1},
		"a link with a zero byte":       {git + "new file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+\x00\n", 1},
		"binary, and no content":        {git + "index 1111111..2222222\nBinary files a/f and b/f differ\n", 1},
		"binary, and no hashes":         {git + "index 1111111..2222222\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n", 4},
		"binary, no literal":            {git + "new file mode 100644\n" + index + "GIT binary patch\nfoo\n", 5},
		"binary, no size":               {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral x\n", 5},
		"binary, a large size":          {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 99999999\n", 5},
		"binary, another size":          {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 1\nHcmV?d00001\n\n", 5},
		"binary, damaged":               {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV?d0000A\n\n", 5},
		"binary, letters that are none": {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV\"d00001\n\n", 6},
		"binary, another length":        {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nIcmV?d00001\n\n", 6},
		"binary, the way back cut":      {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 5\nHcmV?d0", 9},
		"binary, the way back damaged":  {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 5\nHcmV?d00001\n\n", 8},
		"binary, the way back missing":  {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 5\n", 8},
		"binary, another hash":          {git + "new file mode 100644\n" + index + "GIT binary patch\nliteral 0\nHcmV?d00001\n\n", 5},
		"twice new":                     {"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", 5},
		"twice deleted":                 {"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", 5},
		"changed and renamed":           {f + "@@ -1 +1 @@\n-x\n+y\ndiff --git a/f b/g\nrename from f\nrename to g\n", 6},
		"changed and created":           {f + "@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", 6},
		"created and created":           {"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\ndiff --git a/f b/n\nrename from f\nrename to n\n", 5},
		"deleted and changed":           {"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" + f + "@@ -1 +1 @@\n-x\n+y\n", 5},
		"names without a hunk":          {git + "old mode 100644\n" + f, 5},
		"a mode, and another file":      {git + "old mode 100644\nnew mode 100755\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a rename, and another file":    {git + "rename from f\nrename to g\n--- a/h\n+++ b/h\n@@ -1 +1 @@\n-x\n+y\n", 1},
	} {
		_, _, err := check(t, c.patch, files("f", "x\n"))
		if fault.KindOf(err) != fault.Invalid || c.line > 0 && !strings.Contains(err.Error(), fmt.Sprintf("line %d of the patch", c.line)) {
			t.Errorf("%s: %v", name, err)
		}
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

// TestErrorsOfTheTree come through with their kinds.
func TestErrorsOfTheTree(t *testing.T) {
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

// failing is a tree one of whose methods fails.
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

func TestASummary(t *testing.T) {
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
