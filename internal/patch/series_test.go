package patch_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Sections for one file each. The tests concatenate them.
const (
	create   = "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
	change   = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
	back     = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+x\n"
	remove   = "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
	removeY  = "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n"
	rename   = "diff --git a/f b/g\nrename from f\nrename to g\n"
	again    = "diff --git a/g b/h\nrename from g\nrename to h\n"
	home     = "diff --git a/g b/f\nrename from g\nrename to f\n"
	copied   = "diff --git a/f b/g\ncopy from f\ncopy to g\n"
	changeG  = "diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n"
	removeG  = "diff --git a/g b/g\ndeleted file mode 100644\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
	link     = "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
	retarget = "diff --git a/f b/f\nindex 1111111..2222222 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
	mode     = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
)

// TestSeries applies concatenated patches that describe several steps.
func TestSeries(t *testing.T) {
	none, x := files(), files("f", "x\n")
	for _, c := range []struct {
		name, patch  string
		before, want difftest.Tree
	}{
		{"created, deleted", create + remove, none, none},
		{"created, changed", create + change, none, files("f", "y\n")},
		{"created, changed, deleted", create + change + removeY, none, none},
		{"created, renamed", create + rename, none, files("g", "x\n")},
		{"created, renamed, changed", create + rename + changeG, none, files("g", "y\n")},
		{"created, renamed, renamed", create + rename + again, none, files("h", "x\n")},
		{"created, renamed, created", create + rename + create, none, files("f", "x\n", "g", "x\n")},
		{"created, copied", create + copied, none, files("f", "x\n", "g", "x\n")},
		{"created, copied, deleted", create + copied + remove, none, files("g", "x\n")},
		{"created, deleted, created", create + remove + create, none, x},
		{"created in a directory, deleted", strings.ReplaceAll(create+remove, "/f", "/d/f"), none, none},
		{"created as a link, changed", link + retarget, none, difftest.Tree{"f": {Mode: fs.ModeSymlink | 0o777, Link: "y"}}},
		{"changed, deleted", change + removeY, x, none},
		{"changed, changed, deleted", change + back + remove, x, none},
		{"executable, deleted", mode + remove, x, none},
		{"changed, deleted, created", change + removeY + create, x, x},
		{"deleted, created", remove + create, x, x},
		{"deleted, created, deleted", remove + create + remove, x, none},
		{"deleted, created, changed", remove + create + change, x, files("f", "y\n")},
		{"deleted, created as a link", remove + link, x, difftest.Tree{"f": {Mode: fs.ModeSymlink | 0o777, Link: "x"}}},
		{"renamed, changed", rename + changeG, x, files("g", "y\n")},
		{"renamed, deleted", rename + removeG, x, none},
		{"renamed, renamed back", rename + home, x, x},
		{"renamed, renamed on", rename + again, x, files("h", "x\n")},
		{"renamed, created, deleted", rename + create + remove, x, files("g", "x\n")},
		{"copied, deleted again", copied + removeG, x, x},
		{"copied, deleted", copied + remove, x, files("g", "x\n")},
		{"deleted, copied", remove + copied, x, files("g", "x\n")},
	} {
		made, plan, err := check(t, c.patch, c.before)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if said := difftest.Unequal(made, c.want); said != "" {
			t.Errorf("%s: %s", c.name, said)
		}
		if n := strings.Count(c.patch, "diff --git"); len(plan.Files) != n {
			t.Errorf("%s: %d sections, %d files", c.name, n, len(plan.Files))
		}
	}
	for _, c := range []struct {
		name, patch string
		before      difftest.Tree
		want        fault.Kind
	}{
		{"deleted, changed", remove + change, x, fault.Invalid},
		{"deleted, deleted", remove + remove, x, fault.Invalid},
		{"deleted, renamed", remove + rename, x, fault.Invalid},
		{"renamed, changed at the old name", rename + change, x, fault.Invalid},
		{"renamed, renamed", rename + rename, x, fault.Invalid},
		{"changed, renamed", change + rename, x, fault.Invalid},
		{"deleted, created, renamed", remove + create + rename, x, fault.Invalid},
		{"changed, created", change + create, x, fault.Invalid},
		{"created, created", create + create, none, fault.Invalid},
		{"changed, deleted as it was", change + remove, x, fault.Precondition},
		{"created, changed as a link", create + retarget, none, fault.Precondition},
		{"created, deleted, changed", create + remove + change, none, fault.Precondition},
		{"created where there is one, deleted as another", create + removeY, x, fault.Precondition},
	} {
		if _, _, err := check(t, c.patch, c.before); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
