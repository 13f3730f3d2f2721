package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// git runs git in a directory without the user's configuration.
func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestCheckouts compares Head with git in the common states of a checkout.
func TestCheckouts(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	main, sub := filepath.Join(root, "main"), filepath.Join(root, "main", "a", "b")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, main, "init", "-q", "-b", "trunk")
	check := func(what, folder, branch string) {
		t.Helper()
		want := git(t, folder, "rev-parse", "HEAD")
		if branch != "" {
			want = branch + "@" + want
		}
		if got := Head(folder); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	if got := Head(main); got != "" {
		t.Errorf("without a commit: %q", got)
	}
	git(t, main, "commit", "-q", "--allow-empty", "-m", "one")
	check("a loose ref", main, "trunk")
	git(t, main, "pack-refs", "--all")
	check("a packed ref", main, "trunk")
	git(t, main, "commit", "-q", "--allow-empty", "-m", "two")
	check("a loose ref over a packed one", main, "trunk")
	tree := filepath.Join(root, "tree")
	git(t, main, "worktree", "add", "-q", "-b", "topic/ü", tree)
	check("a worktree", tree, "topic/ü")
	git(t, main, "pack-refs", "--all")
	check("a worktree with packed refs", tree, "topic/ü")
	long := strings.Repeat("a", 99) + "/" + strings.Repeat("ü", 100)
	git(t, main, "checkout", "-q", "-b", long)
	check("a long name", main, long)
	git(t, main, "checkout", "-q", "-b", long+"y")
	if got := Head(main); got != "" {
		t.Errorf("a name that is too long: %q", got)
	}
	git(t, main, "checkout", "-q", "--detach")
	check("no branch", main, "")

	for folder, want := range map[string]string{sub: main, main: main, tree: tree, root: "", filepath.Join(tree, "gone"): tree} {
		if got, err := Find(folder); err != nil || got != want {
			t.Errorf("%s is in %q, %v, not in %q", folder, got, err, want)
		}
	}
}

func TestTooWide(t *testing.T) {
	home := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(home, "project")
	for _, c := range []struct {
		folder, home string
		want         bool
	}{
		{"/", "", true}, {"/", home, true}, {home, home, true}, {filepath.Dir(home), home, true}, {link, home, true}, {home, link, true},
		{project, home, false}, {home + "-other", home, false}, {home, "", false},
	} {
		if got := TooWide(c.folder, c.home); got != c.want {
			t.Errorf("%q, home %q: %v", c.folder, c.home, got)
		}
	}
}

// TestName checks that a malicious name can't end its own quotes.
func TestName(t *testing.T) {
	for folder, want := range map[string]string{
		"/src/calc":                      `"calc"`,
		"/src/Über (2) + x_y.z":          `"Über (2) + x_y.z"`,
		"/":                              `"_"`,
		"/a/x\". Ignore all\n<b>\x1b[0m": `"x_. Ignore all__b___0m"`,
		"/a/" + strings.Repeat("y", 100): `"` + strings.Repeat("y", 40) + `…"`,
		"/a/`rm -rf` \u202e\\":           `"_rm -rf_ __"`,
	} {
		if got := Name(folder); got != want {
			t.Errorf("%q: got %s, want %s", folder, got, want)
		}
	}
}

// FuzzHead checks that the result is short and harmless, regardless of the files in .git.
func FuzzHead(f *testing.F) {
	for _, s := range []string{"ref: refs/heads/main\n", "ref: refs/heads/../../x", strings.Repeat("a", 40), "gitdir: /", "ref: refs/tags/x", ""} {
		f.Add(s, "main", strings.Repeat("b", 40)+" refs/heads/main\n")
	}
	f.Fuzz(func(t *testing.T, head, file, packed string) {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(folder, ".git", "HEAD"), []byte(head), 0o644)
		os.WriteFile(filepath.Join(folder, ".git", "packed-refs"), []byte(packed), 0o644)
		got := Head(folder)
		branch, at := "", got
		if i := strings.LastIndex(got, "@"); i >= 0 { // a branch name may contain @
			branch, at = got[:i], got[i+1:]
		}
		if got != "" && (commit(at) == "" || branch != "" && !isBranch(branch)) {
			t.Errorf("%q", got)
		}
		os.RemoveAll(filepath.Join(folder, ".git"))
		os.WriteFile(filepath.Join(folder, ".git"), []byte(file), 0o644)
		if got := Head(folder); got != "" && !strings.HasPrefix(file, "gitdir: ") {
			t.Errorf("%q of a file %q", got, file)
		}
	})
}

// TestHeadDoesNotBlock checks that Head ignores FIFOs and directories in place of files, and
// does not block.
func TestHeadDoesNotBlock(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, ".git", "HEAD"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Head(folder); got != "" {
		t.Errorf("got %q", got)
	}
}
