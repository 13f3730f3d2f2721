package patch_test

import (
	"bytes"
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/patch"
)

// FuzzCheck checks that every patch is either rejected with a reason, or results in a plan. The
// plan must be executable and must not affect paths outside of the tree.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		"--- a/f\r\n+++ b/f\r\n@@ -1,9 +1,9 @@\r\n a\r\n-b\r\n+B\r\n c\r\n@@ -5,1 +5,2 @@\r\n e\r\n+E\r\n\\ No newline at end of file\r\n",
		"--- /dev/null\n+++ \"b/n\\303\\274\"\n@@ -0,0 +1 @@\n+x",
		"diff --git a/f b/d/g\nold mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from f\nrename to d/n\n--- a/f\n+++ b/d/n\n@@ -1 +1 @@\n-a\n+A\n",
		"diff --git a/d/g b/d/g\ndeleted file mode 100644\nindex 587be6b..0000000\n--- a/d/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+f\n\\ No newline at end of file\n",
		"diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-f\n\\ No newline at end of file\n+g\n\\ No newline at end of file\n",
		"diff --git a/b b/b\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\nGIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n",
		"diff --git a/b b/b\nindex ce013625030ba8dba906f756967f9e9ca394464a..f8af66d9ecbc5ef1b7d5a4ea5a9d6d1b2b4ea9a2 100644\nGIT binary patch\ndelta 6\nNcmZ3+000a~06qW!\n\n",
		"diff --git a/f b/c\ncopy from f\ncopy to c\ndiff --git a/f b/f\nold mode 100644\nnew mode 100755\n-- \n2.39.5\n",
	} {
		f.Add([]byte(seed))
	}
	before := difftest.Tree{}
	before.Put("f", file("a\nb\nc\nd\ne"))
	before.Put("d/g", file("x\n"))
	before.Put("crlf", file("a\r\nb\r\n"))
	before.Put("l", difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: "f"})
	f.Fuzz(func(t *testing.T, text []byte) {
		kept := bytes.Clone(text)
		made, plan, err := check(t, string(text), before)
		switch fault.KindOf(err) {
		case "":
			for p := range made {
				if !fs.ValidPath(strings.ToValidUTF8(p, "?")) || strings.Contains(p, "\x00") {
					t.Errorf("%q is in the tree", p)
				}
			}
			if len(plan.Files) == 0 {
				t.Error("a plan of nothing")
			}
		case fault.Invalid, fault.Precondition, fault.Exhausted:
			if len(err.Error()) > 4096 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		default:
			t.Errorf("got an error of an unexpected kind: %v", err)
		}
		if !bytes.Equal(kept, text) {
			t.Error("the patch was written to")
		}
	})
}

// FuzzRoundTrip computes the diff of two texts and applies it to the first text. The result must be
// the second text.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nc\nd"))
	f.Add([]byte("a\r\n\r\n"), []byte("\\ No newline at end of file"))
	f.Add([]byte("-- a\n++ b\n@@ -1 +1 @@\n"), []byte("-- a\n"))
	f.Add([]byte("caf\xe9"), []byte{0})
	f.Fuzz(func(t *testing.T, old, now []byte) {
		before, after := difftest.Tree{"f": {Mode: 0o644, Data: old}}, difftest.Tree{"f": {Mode: 0o755, Data: now}}
		var text strings.Builder
		if _, err := diff.Compare(context.Background(), before, after, &text, diff.Options{IncludeIgnored: true}); err != nil {
			t.Fatal(err)
		}
		made, _, err := check(t, text.String(), before)
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if said := difftest.Unequal(made, after); said != "" {
			t.Errorf("%s\n%s", said, text.String())
		}
	})
}

// TestMemoryIsBounded checks patches with the shortest possible lines. The memory use must not
// exceed a small multiple of the patch's size.
func TestMemoryIsBounded(t *testing.T) {
	const size = 2 << 20
	lines := strings.Repeat("\n", size/8)
	for name, c := range map[string]struct {
		header, line string
		want         fault.Kind
	}{
		"added":              {"--- /dev/null\n+++ b/n\n@@ -0,0 +1,1048500 @@\n", "+\n", ""},
		"added, not counted": {"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n", "+\n", ""},
		"removed":            {"--- a/f\n+++ b/f\n@@ -1,1048500 +1 @@\n", "-\n", fault.Precondition},
		"context":            {"--- a/f\n+++ b/f\n@@ -1,1048500 +1 @@\n", "\n", fault.Invalid},
		"words":              {"", "\n", fault.Invalid},
		"names":              {"", "--- a\n", fault.Invalid},
	} {
		text := []byte(c.header + strings.Repeat(c.line, (size-len(c.header))/len(c.line)))
		tr := tree{t, files("f", lines)}
		grown := growth(func() {
			if _, err := patch.Check(context.Background(), text, tr); fault.KindOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		})
		t.Logf("%s: %d KiB", name, grown>>10)
		if grown > 4*size {
			t.Errorf("%s: %d KiB", name, grown>>10)
		}
	}
}
