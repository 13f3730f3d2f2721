package patch_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
)

// linked returns a tree with symbolic links to a file, to a directory, to nothing and to
// themselves. Its file names are hard to parse in headers.
func linked() difftest.Tree {
	tree := files("d/f", "x\n", "file", "one\ntwo\nthree\n", "empty", "", "with\ttab", "x\n", "sp ace", "x\n", "notes 2024-01-01", "x\n")
	tree.Put("exec", difftest.Node{Mode: 0o755, Data: []byte("x\n")})
	for path, target := range map[string]string{"l": "file", "dang": "none", "loop": "loop", "abs": "/etc/passwd", "dl": "d", "nl": "a\nb"} {
		tree.Put(path, difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: target})
	}
	return tree
}

const nl = "\n\\ No newline at end of file\n"

func retargeted(p, from, to string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nindex 1111111..2222222 120000\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-%s%s+%s%s", p, p, p, p, from, nl, to, nl)
}

func deletedLink(p, target string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\ndeleted file mode 120000\nindex 1111111..0000000\n--- a/%s\n+++ /dev/null\n@@ -1 +0,0 @@\n-%s%s", p, p, p, target, nl)
}

func renamed(a, b string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nsimilarity index 100%%\nrename from %s\nrename to %s\n", a, b, a, b)
}

func copiedTo(a, b string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nsimilarity index 100%%\ncopy from %s\ncopy to %s\n", a, b, a, b)
}

func newLink(p, target string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode 120000\nindex 0000000..2222222\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s%s", p, p, p, target, nl)
}

func newFile(p string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode 100644\nindex 0000000..2222222\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+new\n", p, p, p)
}

func deletedFile(p, c string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/%s\n+++ /dev/null\n@@ -1 +0,0 @@\n-%s\n", p, p, p, c)
}

func changedFile(p, a, b string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\nindex 1111111..2222222 100644\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-%s\n+%s\n", p, p, p, p, a, b)
}

// tolerated contains the patches that Check accepts and git rejects. See docs/patches.md.
var tolerated = map[string]bool{"notes": true, "ren link, beyond old": true, "typechange reversed": true}

// TestLinksAndNamesAsGit compares Check with git. The patches contain links, paths below links,
// type changes, timestamps, and names with tabs and spaces. Check and git must give the same
// result, or both must reject the patch.
func TestLinksAndNamesAsGit(t *testing.T) {
	difftest.NeedsGit(t)
	cases := map[string]string{
		"retarget":                  retargeted("l", "file", "other"),
		"retarget dang":             retargeted("dang", "none", "x"),
		"retarget loop":             retargeted("loop", "loop", "x"),
		"retarget abs":              retargeted("abs", "/etc/passwd", "/etc/shadow"),
		"retarget dl":               retargeted("dl", "d", "e"),
		"retarget wrong":            retargeted("l", "filx", "other"),
		"retarget missing":          retargeted("zz", "file", "other"),
		"retarget of file":          retargeted("file", "one", "other"),
		"del":                       deletedLink("l", "file"),
		"del dang":                  deletedLink("dang", "none"),
		"del loop":                  deletedLink("loop", "loop"),
		"del abs":                   deletedLink("abs", "/etc/passwd"),
		"del wrong":                 deletedLink("l", "filx"),
		"del dl":                    deletedLink("dl", "d"),
		"ren":                       renamed("l", "m"),
		"ren dang":                  renamed("dang", "m"),
		"ren loop":                  renamed("loop", "q/m"),
		"ren abs":                   renamed("abs", "m"),
		"ren dl":                    renamed("dl", "m"),
		"ren over":                  renamed("l", "dang"),
		"ren into dl":               renamed("file", "dl/file"),
		"ren from dl":               renamed("dl/f", "m"),
		"cop":                       copiedTo("l", "m"),
		"cop into dl":               copiedTo("file", "dl/x"),
		"cop from dl":               copiedTo("dl/f", "m"),
		"cop dang":                  copiedTo("dang", "q/r/m"),
		"new beyond":                newFile("dl/x"),
		"new beyond dang":           newFile("dang/x"),
		"new beyond loop":           newFile("loop/x"),
		"new beyond l":              newFile("l/x"),
		"new link beyond":           newLink("dl/x", "y"),
		"new on link":               newFile("dang"),
		"newLink on link":           newLink("dang", "x"),
		"newLink on file":           newLink("file", "x"),
		"newLink on dir":            newLink("d", "x"),
		"del beyond":                deletedFile("dl/f", "x"),
		"mod beyond":                changedFile("dl/f", "x", "y"),
		"typechange link to file":   deletedLink("l", "file") + newFile("l"),
		"typechange file to link":   deletedFile("exec", "x") + newLink("exec", "t"),
		"typechange reversed":       newFile("l") + deletedLink("l", "file"),
		"dl to dir":                 deletedLink("dl", "d") + newFile("dl/x"),
		"dl to dir reversed":        newFile("dl/x") + deletedLink("dl", "d"),
		"dl to dir and d/f mod":     deletedLink("dl", "d") + newFile("dl/f"),
		"dir to link":               deletedFile("d/f", "x") + newLink("d", "x"),
		"dir to link reversed":      newLink("d", "x") + deletedFile("d/f", "x"),
		"dir to file":               deletedFile("d/f", "x") + newFile("d"),
		"dir to file reversed":      newFile("d") + deletedFile("d/f", "x"),
		"file to dir":               deletedFile("exec", "x") + newFile("exec/y"),
		"new link then beyond":      newLink("m", "d") + newFile("m/x"),
		"beyond then new link":      newFile("m/x") + newLink("m", "d"),
		"ren link, beyond old":      renamed("dl", "m") + newFile("dl/x"),
		"ren link, beyond new":      renamed("dl", "m") + newFile("m/x"),
		"del link, mod beyond":      deletedLink("dl", "d") + changedFile("dl/f", "x", "y"),
		"del link, del beyond":      deletedLink("dl", "d") + deletedFile("dl/f", "x"),
		"del link, ren from beyond": deletedLink("dl", "d") + renamed("dl/f", "m"),
		"retarget, beyond":          retargeted("dl", "d", "e") + newFile("dl/x"),
		"link mode":                 "diff --git a/l b/l\nold mode 120000\nnew mode 100644\n",
		"link exec":                 "diff --git a/l b/l\nold mode 100644\nnew mode 100755\n",
		"link new exec":             "diff --git a/l b/l\nnew mode 100755\n",
		"file mode to link":         "diff --git a/file b/file\nold mode 100644\nnew mode 120000\n",
		"plain retarget":            "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file" + nl + "+other" + nl,
		"plain retarget nl":         "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file\n+other\n",
		"plain del":                 "--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-file" + nl,
		"plain text":                "--- a/l\n+++ b/l\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n",
		"git text on link":          "diff --git a/l b/l\n--- a/l\n+++ b/l\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n",
		"git no mode retarget":      "diff --git a/l b/l\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file" + nl + "+other" + nl,
		"retarget with nl":          "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file" + nl + "+other\n",
		"retarget nl old":           "diff --git a/l b/l\nindex 1111..2222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-file\n+other\n",
		"two line target":           "diff --git a/nl b/nl\nindex 1111..2222 120000\n--- a/nl\n+++ b/nl\n@@ -1,2 +1,2 @@\n-a\n+c\n b" + nl,
		"two line append":           "diff --git a/nl b/nl\nindex 1111..2222 120000\n--- a/nl\n+++ b/nl\n@@ -1,2 +1,3 @@\n a\n-b" + nl + "+b\n+c" + nl,
		"empty target":              "diff --git a/l b/l\nindex 1111..2222 120000\n--- a/l\n+++ b/l\n@@ -1 +0,0 @@\n-file" + nl,
		"rename and retarget":       "diff --git a/l b/m\nsimilarity index 50%\nrename from l\nrename to m\nindex 1111..2222 120000\n--- a/l\n+++ b/m\n@@ -1 +1 @@\n-file" + nl + "+other" + nl,
		"rename link to exec":       "diff --git a/l b/m\nold mode 120000\nnew mode 100755\nsimilarity index 100%\nrename from l\nrename to m\n",
		"rename file to exec":       "diff --git a/file b/m\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from file\nrename to m\n",
		"copy exec":                 "diff --git a/exec b/m\nold mode 100755\nnew mode 100644\nsimilarity index 100%\ncopy from exec\ncopy to m\n",
		"delete mode mismatch":      "diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-file" + nl,
		"delete file as link":       "diff --git a/exec b/exec\ndeleted file mode 120000\n--- a/exec\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
		"tab traditional":           "--- a/with\ttab\t2010-07-05 19:41:17.620000023 -0500\n+++ b/with\ttab\t2010-07-05 19:42:00 -0500\n@@ -1 +1 @@\n-x\n+y\n",
		"tab posix":                 "--- a/with\ttab\t2010-07-05 19:41:17\n+++ b/with\ttab\t2010-07-05 19:42:00\n@@ -1 +1 @@\n-x\n+y\n",
		"tab no time":               "--- a/with\ttab\n+++ b/with\ttab\n@@ -1 +1 @@\n-x\n+y\n",
		"tab quoted":                "--- \"a/with\\ttab\"\n+++ \"b/with\\ttab\"\n@@ -1 +1 @@\n-x\n+y\n",
		"tab quoted time":           "--- \"a/with\\ttab\"\t2010-07-05 19:41:17 -0500\n+++ \"b/with\\ttab\"\t2010-07-05 19:41:17 -0500\n@@ -1 +1 @@\n-x\n+y\n",
		"tab git quoted":            "diff --git \"a/with\\ttab\" \"b/with\\ttab\"\n--- \"a/with\\ttab\"\n+++ \"b/with\\ttab\"\n@@ -1 +1 @@\n-x\n+y\n",
		"tab git raw":               "diff --git a/with\ttab b/with\ttab\n--- a/with\ttab\n+++ b/with\ttab\n@@ -1 +1 @@\n-x\n+y\n",
		"tab git rename raw":        "diff --git a/with\ttab b/m\nrename from with\ttab\nrename to m\n",
		"tab git mode raw":          "diff --git a/with\ttab b/with\ttab\nold mode 100644\nnew mode 100755\n",
		"space time":                "--- a/sp ace\t2010-07-05 19:41:17\n+++ b/sp ace\t2010-07-05 19:41:17\n@@ -1 +1 @@\n-x\n+y\n",
		"space damaged":             "--- a/sp ace 2010-07-05 19:41:17 +0100\n+++ b/sp ace 2010-07-05 19:41:17 +0100\n@@ -1 +1 @@\n-x\n+y\n",
		"space notime":              "--- a/sp ace\n+++ b/sp ace\n@@ -1 +1 @@\n-x\n+y\n",
		"space git":                 "diff --git a/sp ace b/sp ace\n--- a/sp ace\t\n+++ b/sp ace\t\n@@ -1 +1 @@\n-x\n+y\n",
		"notes":                     "--- a/notes 2024-01-01\n+++ b/notes 2024-01-01\n@@ -1 +1 @@\n-x\n+y\n",
		"notes git":                 "diff --git a/notes 2024-01-01 b/notes 2024-01-01\n--- a/notes 2024-01-01\t\n+++ b/notes 2024-01-01\t\n@@ -1 +1 @@\n-x\n+y\n",
	}
	for i, zone := range []string{"1970-01-01 00:00:00 +0000", "1970-01-01 00:00:00.000000000 +0000", "1970-01-01 00:00:00.1 +0000", "1969-12-31 16:00:00 -0800", "1969-12-31 16:00:00 -08:00", "1970-01-01 09:00:00 +0900", "1970-01-01 09:00:00 +09:00", "1970-01-01 00:00:00", "1970-01-01 00:00:01 +0000", "1970-01-01", "70-01-01 00:00:00 +0000", "Thu Jan  1 00:00:00 1970", "1970-01-01 00:00:00 -0000", "1970-01-01 00:00 +0000", "1970-01-01 05:30:00 +0530", "1970-01-01T00:00:00Z"} {
		cases[fmt.Sprint("epoch new ", i, zone)] = "--- a/m\t" + zone + "\n+++ b/m\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+x\n"
		cases[fmt.Sprint("epoch new existing ", i, zone)] = "--- a/exec\t" + zone + "\n+++ b/exec\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+x\n"
		cases[fmt.Sprint("epoch new empty ", i, zone)] = "--- a/empty\t" + zone + "\n+++ b/empty\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+x\n"
		cases[fmt.Sprint("epoch del ", i, zone)] = "--- a/exec\t2024-01-01 00:00:00 +0000\n+++ b/exec\t" + zone + "\n@@ -1 +0,0 @@\n-x\n"
		cases[fmt.Sprint("epoch both ", i, zone)] = "--- a/exec\t" + zone + "\n+++ b/exec\t" + zone + "\n@@ -1 +0,0 @@\n-x\n"
		cases[fmt.Sprint("epoch mod ", i, zone)] = "--- a/exec\t" + zone + "\n+++ b/exec\t2024-01-01 00:00:00 +0000\n@@ -1 +1 @@\n-x\n+y\n"
		cases[fmt.Sprint("epoch new git ", i, zone)] = "diff --git a/exec b/exec\n--- a/exec\t2024-01-01 00:00:00 +0000\n+++ b/exec\t" + zone + "\n@@ -1 +0,0 @@\n-x\n"
	}
	both := 0
	for name, text := range cases {
		dir := t.TempDir()
		if err := linked().Write(dir); err != nil {
			t.Fatal(err)
		}
		_, gitErr := difftest.Git(dir, text, "apply", "--whitespace=nowarn", "-")
		made, _, err := check(t, text, linked())
		switch {
		case (gitErr == nil) != (err == nil):
			if err != nil || !tolerated[name] {
				t.Errorf("%s: git: %v, plan: %v", name, gitErr, err)
			}
		case err == nil:
			both++
			want, _ := difftest.Read(dir)
			if said := difftest.Unequal(made.Git(), want.Git()); said != "" {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
	if t.Logf("both applied %d of %d", both, len(cases)); both < len(cases)/2 {
		t.Error("that proves little")
	}
}
