package ignore

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// onDisk returns a Tree for a directory on disk.
func onDisk(folder string) *Tree {
	return &Tree{Read: func(at string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(folder, at, File))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return text, err
	}}
}

// byGit returns the paths that git ignores. The paths of directories end with a slash.
func byGit(t *testing.T, folder string, paths []string) (ignored []string) {
	t.Helper()
	cmd := exec.Command("git", "-C", folder, "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin")
	var bare []string
	for _, name := range paths {
		bare = append(bare, strings.TrimSuffix(name, "/"))
	}
	cmd.Stdin = strings.NewReader(strings.Join(bare, "\x00") + "\x00")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("git check-ignore: %v", err)
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			ignored = append(ignored, name)
		}
	}
	return ignored
}

// byUs returns the paths that this package ignores.
func byUs(t *testing.T, folder string, paths []string) (ignored []string) {
	t.Helper()
	tree := onDisk(folder)
	for _, name := range paths {
		bare, isFolder := strings.CutSuffix(name, "/")
		yes, err := tree.Ignored(bare, isFolder)
		if err != nil {
			t.Fatal(err)
		}
		if yes {
			ignored = append(ignored, bare)
		}
	}
	return ignored
}

// checkout creates a git repository with the given files. For each path it also creates an empty
// file. If the path ends with a slash, it creates a directory.
func checkout(t *testing.T, files map[string]string, paths ...string) string {
	t.Helper()
	testenv.NeedsTool(t, "git")
	folder := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", folder).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for name, text := range files {
		name = filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range paths {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			err := os.MkdirAll(at, 0o755)
			if err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestRulesMatchGit compares the effect of rules with the results of git.
func TestRulesMatchGit(t *testing.T) {
	paths := []string{
		"a/", "a/b/", "a/b/c/", "a/b/c/d.log", "sub/a", "a.log", "b/a.log", "b/keep.log", "build/", "build/x", "sub/build/", "sub/build/x", "sub/build.go",
		".env", "sub/.env", "x y", "x ", "#x", "!x", "a{b}", "a]", "a[", "a-b", "b.c", "B.c", "9.c", "foo/", "foo/bar", "foo/x/", "foo/x/bar", "foo/x/y/bar", "foobar", "foo/a/",
		"deep/1/2/3/4/5", "deep/keep/x", "node_modules/", "node_modules/p/i.js", "p/node_modules/p/i.js", "dir/sub/file.txt", "dir/sub2/file.txt", "dir/sub2/keep.txt",
		"axb", "abc", "abbbc", "a*c", `a\c`, "__pycache__/", "m/__pycache__/x.pyc",
	}
	folder := checkout(t, nil, paths...)
	for _, rules := range []string{
		"a", "/a", "a/", "/a/", "a/b", "*.log\n!keep.log", "build/", "/build/", "sub/build/", ".env", "*", "*\n!*/\n!*.log", "/*\n!/a", "a/*\n!a/b", "a/\n!a/b",
		"**/build", "**/build/x", "foo/**", "foo/**/bar", "foo/**/", "**", "**/", "/**", "a**c", "foo**bar", "[ab].c", "[!a].c", "[^a].c", "[a-c].c", "[]]", "a[]]", "[[:digit:]].c",
		"[[:upper:]].c", "[[:nonsense:]].c", "[[:alpha:][:digit:]].c", "[a", "a[", `a\[`, "a{b}", "{a,b}", `\#x`, "#x", `\!x`, "!x\nx", `x\ `, "x ", "x\\  ", "x y", "a?c", "?", "a*c", `a\*c`, `a\\c`, `a\`,
		"\xef\xbb\xbfa", "a\r\nb", "a\r", "/", "//", "a//b", "./a", "../a", " a", "\ta", "deep/**/5\n!deep/keep", "deep/*/2", "node_modules", "dir/*/file.txt", "dir/**/keep.txt",
		"__pycache__/", "*.py[cod]", "foo/*\n!foo/x/\nfoo/x/*\n!foo/x/bar", "*/b", "*/*/c", "[a-", "[--0]", "[a\\-c].c", "**/**/bar", "foo/**/**/bar", "\\", "a[/x]b", "a[/]b", "a[x/]b", "foo[/]bar", "foo[/x]bar", "a[!/]b", "a[.-0]b", "[+-/]", "[/-9].c", "a[a-x-/]b", "a[-/]b", "[--/]", `a[\/x]b`, "a[x/-]b", "a[!/-a]b", "foo[.-0]bar", "[!]a-]", "b.[!x]", "/a[!x]b", "/a[!-x]b", "/a[^]-]b", "/a[!x-]b", "**a", "a**/b", "a/**b",
	} {
		if err := os.WriteFile(filepath.Join(folder, File), []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
		git, us := byGit(t, folder, paths), byUs(t, folder, paths)
		if !slices.Equal(git, us) {
			t.Errorf("rules %q: git ignores\n%q\nwe ignore\n%q", rules, git, us)
		}
	}
}

// TestNested compares the effect of .gitignore files in several directories with the results of
// git.
func TestNested(t *testing.T) {
	files := map[string]string{
		File: "*.log\nout/\n/top\nsecret*\n", "sub/" + File: "!keep.log\n/only\nout2\n", "sub/deep/" + File: "*.log\n!secret.txt\n",
		"out/" + File: "!*\n", "sub/out2/" + File: "!*\n",
	}
	paths := []string{
		"x.log", "keep.log", "sub/keep.log", "sub/x.log", "sub/deep/keep.log", "sub/deep/secret.txt", "sub/secret.txt", "out/", "out/x", "out/deep/x", "sub/out/", "sub/out/x",
		"top", "sub/top", "only", "sub/only", "sub/deep/only", "sub/out2/", "sub/out2/y", "z",
	}
	folder := checkout(t, files, paths...)
	if git, us := byGit(t, folder, paths), byUs(t, folder, paths); !slices.Equal(git, us) {
		t.Errorf("git ignores\n%q\nwe ignore\n%q", git, us)
	}
}

// TestAsGitAtRandom compares the effect of random rules with the results of git.
func TestAsGitAtRandom(t *testing.T) {
	r := rand.New(rand.NewSource(int64(testenv.Seed(t, 1))))
	pick := func(from []string, most int) string {
		var b strings.Builder
		for range 1 + r.Intn(most) {
			b.WriteString(from[r.Intn(len(from))])
		}
		return b.String()
	}
	for range 40 {
		var rules []string
		for range 1 + r.Intn(4) {
			rules = append(rules, pick([]string{"a", "b", "*", "/", "**", "?", "!", "[ab]", "[!a]", `\`, " ", "{", "é", "日", "[a/]", "[.-0]", "[+-/]", "[é]", "[!é]", "[a-é]", "\xff"}, 6))
		}
		var paths []string
		for range 60 {
			name := strings.Trim(pick([]string{"a", "b", "/", "ab", "c", "{", "é", "è", "日", "\xff"}, 6), "/")
			for strings.Contains(name, "//") {
				name = strings.ReplaceAll(name, "//", "/")
			}
			taken := slices.ContainsFunc(paths, func(p string) bool { return p == name || within(p, name) || within(name, p) })
			if name != "" && !taken {
				paths = append(paths, name)
			}
		}
		folder := checkout(t, map[string]string{File: strings.Join(rules, "\n")})
		if git, us := byGit(t, folder, paths), byUs(t, folder, paths); !slices.Equal(git, us) {
			t.Errorf("rules %q: git ignores\n%q\nwe ignore\n%q", rules, git, us)
		}
	}
}

// TestBounds checks that input above the limits does not ignore anything.
func TestBounds(t *testing.T) {
	if rules := Parse(bytes.Repeat([]byte("a\n"), MaxFile)); rules != nil {
		t.Errorf("a file of %d bytes has %d rules", 2*MaxFile, len(rules))
	}
	if rules := Parse(bytes.Repeat([]byte("a\n"), MaxRules+1)); len(rules) != MaxRules {
		t.Errorf("%d rules", len(rules))
	}
	if rules := Parse([]byte(strings.Repeat("a", maxLine+1) + "\nb\n")); len(rules) != 1 {
		t.Errorf("%d rules", len(rules))
	}
	tree := &Tree{Read: func(string) ([]byte, error) { return []byte("x\n*"), nil }, Tests: 5}
	for i, want := range []bool{true, true, false, false} {
		if got, err := tree.Ignored("a", false); got != want || err != nil {
			t.Errorf("call %d: %t, %v", i, got, err)
		}
	}
}

// FuzzIgnored checks that evaluating hostile rules and paths ends quickly.
func FuzzIgnored(f *testing.F) {
	f.Add([]byte("*.log\n!keep.log\n/a/**/b/\n[[:digit:]]"), "a/x/b/keep.log")
	f.Add([]byte(strings.Repeat("**/a/", 100)+"b"), strings.Repeat("a/", 500)+"c")
	f.Add([]byte(strings.Repeat("*a", 200)+"b"), strings.Repeat("a", 255))
	f.Add([]byte("[a-\\]]{x,y}\n\\"), "]")
	f.Fuzz(func(t *testing.T, rules []byte, name string) {
		name = strings.Trim(filepath.Clean("/"+name), "/")
		if name == "" || len(name) > 4096 {
			return
		}
		tree := &Tree{Read: func(folder string) ([]byte, error) {
			if folder == "" {
				return rules, nil
			}
			return nil, nil
		}}
		ignored, err := tree.Ignored(name, false)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := tree.Ignored(name, false); again != ignored {
			t.Errorf("%q: %t, then %t", name, ignored, again)
		}
	})
}
