package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/pull"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// hostGit runs git in a folder and returns its output.
func hostGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@x", "-C", folder}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestPullRewrittenCommits checks that a pull brings commits that the workspace has rewritten, and
// that it never discards commits of the user.
func TestPullRewrittenCommits(t *testing.T) {
	t.Parallel()
	testenv.NeedsTool(t, "git")
	m := newManager(t)
	folder := t.TempDir()
	hostGit(t, folder, "init", "-q", "-b", "main")
	check(t, os.WriteFile(filepath.Join(folder, "a"), []byte("0\n"), 0o644))
	hostGit(t, folder, "add", "-A")
	hostGit(t, folder, "commit", "-q", "-m", "first")
	spec := onHost()
	spec.SeedPath = folder
	w, err := m.Create(t.Context(), spec)
	check(t, err)
	branch := "pyro/" + w.ID
	commit := func(text, args string) string {
		t.Helper()
		return strings.TrimSpace(run(t, m, w.ID, "echo "+text+" >a && git add -A && git -c user.name=x -c user.email=x@x commit -q -m x "+args+" && git rev-parse HEAD"))
	}
	pulls := func(want, commit string) {
		t.Helper()
		done, err := m.Pull(t.Context(), w.ID, PullOptions{Resolve: pull.Theirs, Git: true})
		if err != nil || done.Branch != want {
			t.Fatalf("got the branch %q, want %q: %v", done.Branch, want, err)
		}
		if got := hostGit(t, folder, "rev-parse", branch); got != commit {
			t.Errorf("the branch is at %s, want %s", got, commit)
		}
	}
	fails := func(says string) error {
		t.Helper()
		before := hostGit(t, folder, "status", "--short", "--branch") + hostGit(t, folder, "diff") + hostGit(t, folder, "rev-parse", branch)
		_, err := m.Pull(t.Context(), w.ID, PullOptions{Resolve: pull.Theirs, Git: true})
		if fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), says) {
			t.Fatalf("got %v, want %q", err, says)
		}
		if after := hostGit(t, folder, "status", "--short", "--branch") + hostGit(t, folder, "diff") + hostGit(t, folder, "rev-parse", branch); after != before {
			t.Errorf("a refused pull has changed the project: %s", after)
		}
		return err
	}

	first := commit("1", "")
	pulls(branch, first)
	pulls("", first)
	amended := commit("2", "--amend")
	pulls(branch, amended)
	run(t, m, w.ID, "git reset -q --hard "+first)
	pulls(branch, first)

	hostGit(t, folder, "stash", "-q")
	hostGit(t, folder, "switch", "-q", branch)
	commit("3", "--amend")
	if err := fails("git fetch: "); !strings.Contains(err.Error(), "checked out") {
		t.Errorf("got %v", err)
	}
	hostGit(t, folder, "commit", "-q", "--allow-empty", "-m", "mine")
	mine := hostGit(t, folder, "rev-parse", "HEAD")
	hostGit(t, folder, "switch", "-q", "main")
	hint := fault.HintOf(fails("commits that the workspace does not have"))
	rename, _, _ := strings.Cut(hint, " keeps them")
	if out, err := exec.Command("sh", "-c", rename).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", hint, err, out)
	}
	pulls(branch, strings.TrimSpace(run(t, m, w.ID, "git rev-parse HEAD")))
	if got := hostGit(t, folder, "rev-parse", branch+"-mine"); got != mine {
		t.Errorf("the commit of the user is at %s, want %s", got, mine)
	}
}
