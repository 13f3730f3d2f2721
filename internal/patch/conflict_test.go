package patch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/patch"
)

// TestConflicts checks the conflicts for patches that do not fit the tree.
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
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -5,3 +5,3 @@ func x", Line: 5, Reason: `does not match line 6: it expects "F" but the file has "f"`, Expected: []string{"e", "F", "g"}, Found: []string{"e", "f", "g"}}},
		{"another line, far from where the header says", f + "@@ -2,4 +2,3 @@\n line 41\n line 42\n-line forty-three\n line 44\n", files("f", numbered(60)),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,4 +2,3 @@", Line: 42, Reason: `does not match line 43: it expects "line forty-three" but the file has "line 43"`,
				Expected: []string{"line 42", "line forty-three", "line 44"}, Found: []string{"line 42", "line 43", "line 44"}}},
		{"nothing like it", f + "@@ -2,2 +2,1 @@\n x\n-\x1b[2Jy\tz\xff\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,2 +2,1 @@", Line: 2, Reason: `does not match line 2: it expects "x" but the file has "b"`, Expected: []string{"x", "\ufffd[2Jy\tz\ufffd"}, Found: []string{"b", "c"}}},
		{"beyond the end", f + "@@ -7,2 +7,1 @@\n g\n-h\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -7,2 +7,1 @@", Line: 7, Reason: `does not match: it expects "h", but the file ends after line 7`, Expected: []string{"g", "h"}, Found: []string{"g"}}},
		{"an empty file", f + "@@ -1 +1 @@\n-x\n+y\n", files("f", ""),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1 +1 @@", Line: 1, Reason: `does not match: it expects "x", but the file ends after line 0`, Expected: []string{"x"}, Found: []string{}}},
		{"a false end", f + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,2 @@", Line: 1, Reason: "does not match: it ends the file at line 2, but the file has more lines", Expected: []string{"a", "b"}, Found: []string{"a", "b"}}},
		{"several places", f + "@@ -19,2 +19,2 @@\n-x\n+y\n z\n", files("f", "x\nz\nx\nz\nx\nz\nx\nz\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -19,2 +19,2 @@", Reason: "does not clearly belong to line 19: it matches at several lines (1, 3, 5, 7) and needs more context"}},
		{"no context", f + "@@ -2,0 +3 @@\n+x\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -2,0 +3 @@", Reason: "has neither context nor removed lines, and line 2 is not the end of the file: diff with context, not with -U0"}},
		{"the wrong order", f + "@@ -4,3 +4,3 @@\n d\n-e\n+E\n f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -1,3 +1,3 @@", Reason: "matches only at line 1, before the previous hunk: hunks must be in file order"}},
		{"-U0, within the file", f + "@@ -3 +3 @@\n-c\n+C\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3 +3 @@", Line: 3, Expected: []string{"c"}, Found: []string{"c"}, Reason: "has no context, and its match at line 3 may be wrong: diff with context, not with -U0"}},
		{"-U0, at the end but not called so", f + "@@ -3 +3 @@\n-x\n+y\n", files("f", "x\nx\nx\nx\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3 +3 @@", Line: 3, Expected: []string{"x"}, Found: []string{"x"}, Reason: "has no context, and its match at line 3 may be wrong: diff with context, not with -U0"}},
		{"no context before", f + "@@ -1,2 +1,3 @@\n+new\n c\n d\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Line: 3, Expected: []string{"c", "d"}, Found: []string{"c", "d"}, Reason: "has no context before its changes, so it belongs to the start of the file, but it matches at line 3"}},
		{"no context after", f + "@@ -1,2 +1,3 @@\n a\n b\n+new\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Line: 1, Expected: []string{"a", "b"}, Found: []string{"a", "b"}, Reason: "has no context after its changes, so it belongs to the end of the file, but it matches at line 1"}},
		{"applied at the start already", f + "@@ -1,2 +1,3 @@\n+new\n a\n b\n", files("f", "new\n"+abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +1,3 @@", Reason: "is already applied: the file has its result from line 1 on"}},
		{"applied at the end already", f + "@@ -6,2 +6,3 @@\n f\n g\n+new\n", files("f", abc+"new\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -6,2 +6,3 @@", Reason: "is already applied: the file has its result from line 6 on"}},
		{"already applied, without context before", f + "@@ -3,2 +3,3 @@\n+new\n c\n d\n", files("f", "a\nb\nnew\nc\nd\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -3,2 +3,3 @@", Reason: "is already applied: the file has its result from line 3 on"}},
		{"already applied, with the same lines elsewhere", f + "@@ -1,3 +1,4 @@\n a\n+new\n b\n c\n", files("f", "a\nnew\nb\nc\n-\na\nb\nc\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,3 +1,4 @@", Reason: "is already applied: the file has its result from line 1 on"}},
		{"headers that name two places", f + "@@ -4,3 +1,3 @@\n x\n-y\n+z\n x\n", files("f", "x\ny\nx\nx\ny\nx\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -4,3 +1,3 @@", Reason: "does not clearly belong to line 4: it matches at several lines (1, 4) and needs more context"}},
		{"as far off as the hunk before, and where it says", f + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -7,3 +7,3 @@\n x\n-y\n+Y\n z\n", files("f", "0\n0\n0\na\nb\nc\nx\ny\nz\nx\ny\nz\n"),
			patch.Conflict{Path: "f", Hunk: 2, Header: "@@ -7,3 +7,3 @@", Reason: "does not clearly belong to line 7: it matches at several lines (7, 10) and needs more context"}},
		{"white space counts", f + "@@ -1 +1 @@\n-\tx\n+y\n", files("f", "    x\n"),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1 +1 @@", Line: 1, Reason: `does not match line 1: it expects "\tx" but the file has "    x"`, Expected: []string{"\tx"}, Found: []string{"    x"}}},
		{"missing", f + "@@ -1 +1 @@\n-x\n+y\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"missing, to be deleted", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"missing, to be renamed", "diff --git a/f b/g\nrename from f\nrename to g\n", files(), patch.Conflict{Path: "f", Reason: "it does not exist"}},
		{"there already", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files("f", "x\n"), patch.Conflict{Path: "f", Reason: "it exists already"}},
		{"there already, for a rename", "diff --git a/f b/g\nrename from f\nrename to g\n", files("f", "", "g", ""), patch.Conflict{Path: "g", Reason: "it exists already"}},
		{"there already, for a copy", "diff --git a/f b/g\ncopy from f\ncopy to g\n", files("f", "", "g", ""), patch.Conflict{Path: "g", Reason: "it exists already"}},
		{"a directory in the way", "--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n", files("d/f", ""), patch.Conflict{Path: "d", Reason: "it is a directory that does not become empty"}},
		{"a directory that keeps something", "--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", files("d/f", "x\n", "d/g", ""), patch.Conflict{Path: "d", Reason: "it is a directory that does not become empty"}},
		{"below a file", "--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+x\n", files("f", ""), patch.Conflict{Path: "f/g", Reason: `"f" above it is not a directory`}},
		{"below a new file", "--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+x\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", files(), patch.Conflict{Path: "f", Reason: "it can't be both a file and a directory"}},
		{"through a link", "--- a/l/f\n+++ b/l/f\n@@ -1 +1 @@\n-x\n+y\n", link, patch.Conflict{Path: "l/f", Reason: `"l" above it is a symbolic link, which is not followed`}},
		{"created through a link", "--- /dev/null\n+++ b/l/g\n@@ -0,0 +1 @@\n+x\n", link, patch.Conflict{Path: "l/g", Reason: `"l" above it is a symbolic link, which is not followed`}},
		{"a link as a file", "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-d\n+e\n", link, patch.Conflict{Path: "l", Hunk: 1, Header: "@@ -1 +1 @@", Reason: `does not match: this is a symbolic link, so its only line must be its target "d", followed by "\ No newline at end of file"`}},
		{"a mode for a link", "diff --git a/l b/l\nold mode 100644\nnew mode 100755\n", link, patch.Conflict{Path: "l", Reason: "it is a symbolic link, and the patch is for a file"}},
		{"a file as a link", "diff --git a/f b/f\nindex 1111111..2222222 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-d\n+e\n", files("f", "d\n"), patch.Conflict{Path: "f", Reason: "it is a file, and the patch is for a symbolic link"}},
		{"a directory", "--- a/d\n+++ b/d\n@@ -1 +1 @@\n-d\n+e\n", link, patch.Conflict{Path: "d", Reason: "it is neither a file nor a symbolic link"}},
		{"more than is deleted", "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", files("f", abc),
			patch.Conflict{Path: "f", Hunk: 1, Header: "@@ -1,2 +0,0 @@", Line: 1, Expected: []string{"a", "b"}, Found: []string{"a", "b"}, Reason: "removes 2 lines and leaves none, but the file has 7"}},
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
	if want := `apply patch "f": hunk 1 (@@ -1 +1 @@) does not match line 1: it expects "x" but the file has "z"`; err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestConflictIsBounded checks that a conflict shows only a limited part of long lines and hunks.
func TestConflictIsBounded(t *testing.T) {
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

// TestMalformedPatches checks that Check rejects malformed patches with a line number.
func TestMalformedPatches(t *testing.T) {
	f := "--- a/f\n+++ b/f\n"
	git := "diff --git a/f b/f\n"
	index := "index 0000000000000000000000000000000000000000..78981922613b2afb6025042ff6bd878ac1994e85 100644\n"
	for name, c := range map[string]struct {
		patch string
		line  int // 0 means that the error has no line number
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
