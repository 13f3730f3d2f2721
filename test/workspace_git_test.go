//go:build machine

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitWorktree seeds a workspace from a git worktree, and pushes another one. In both cases git
// must say the same in a copy as on the host. A pull then brings files and commits back.
func TestGitWorktree(t *testing.T) {
	t.Parallel()
	sameForAll(t)
	p := workspaces(t)
	main := gitProject(t)
	hostGit(t, main, "config", "remote.origin.url", "https://you:secret@example.com/x.git")
	edited := func(name string) string {
		t.Helper()
		at := filepath.Join(t.TempDir(), name)
		hostGit(t, main, "worktree", "add", "-q", "-b", name, at)
		for file, text := range map[string]string{"main.py": "print(2)\n", "new.py": "new\n", "lib/a.py": "a = 2\n"} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		hostGit(t, at, "add", "lib")
		return at
	}
	says := func(folder string) string {
		t.Helper()
		all := ""
		for _, args := range [][]string{{"status", "--porcelain=v2", "--branch"}, {"log", "--format=%H %D"}, {"diff"}, {"diff", "--cached"}} {
			all += hostGit(t, folder, args...)
		}
		return all
	}
	seeded, pushed := edited("seeded"), edited("pushed")
	id := p.create("--seed-path", seeded)
	p.must("workspace", "sync", "push", id, pushed, "--dest", "pushed")
	out := filepath.Join(t.TempDir(), "out")
	p.must("workspace", "export", id, ".", "--output", out)
	host, copied := map[string]string{"pushed": says(pushed)}, map[string]string{"pushed": says(filepath.Join(out, "pushed"))}
	if err := os.RemoveAll(filepath.Join(out, "pushed")); err != nil {
		t.Fatal(err)
	}
	host["seeded"], copied["seeded"] = says(seeded), says(out)
	for name, want := range host {
		if copied[name] != want || !strings.Contains(want, "new.py") {
			t.Errorf("%s: on the host\n%s\nin the copy\n%s", name, want, copied[name])
		}
	}
	if config, err := os.ReadFile(filepath.Join(out, ".git/config")); err != nil || strings.Contains(string(config), "secret") || !strings.Contains(string(config), "example.com") {
		t.Errorf("the configuration is %q, %v", config, err)
	}

	p.shell(id, "rm -r pushed; echo 'print(3)' >main.py")
	hostGit(t, out, "commit", "-q", "-m", "of the agent", "lib")
	commit := hostGit(t, out, "rev-parse", "HEAD")
	if err := os.Remove(filepath.Join(out, "main.py")); err != nil {
		t.Fatal(err)
	}
	p.must("workspace", "cp", out+"/.", id+":/workspace")
	link, _ := os.ReadFile(filepath.Join(seeded, ".git"))
	if pulled := p.object("workspace", "sync", "pull", id, "--git"); pulled["branch"] != "pyro/"+id || pulled["changed"] != true {
		t.Errorf("the pull: %v", pulled)
	}
	if got, _ := os.ReadFile(filepath.Join(seeded, ".git")); string(got) != string(link) {
		t.Errorf("the file .git became %q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(seeded, "main.py")); string(got) != "print(3)\n" {
		t.Errorf("main.py became %q", got)
	}
	if got := hostGit(t, main, "rev-parse", "pyro/"+id); got != commit {
		t.Errorf("the branch is at %s, not at %s", got, commit)
	}
}

// TestUncopyableGit checks that the results say why git does not work in the workspace.
func TestUncopyableGit(t *testing.T) {
	t.Parallel()
	sameForAll(t)
	p := workspaces(t)
	folder := t.TempDir()
	for name, text := range map[string]string{"a": "a", ".git": "gitdir: /no/such/repository"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const says = `its repository "/no/such/repository" does not exist on this host`
	w := p.object("workspace", "create", environment, "--seed-path", folder)
	if got, _ := w["workspace_seed"].(map[string]any)["git_missing"].(string); !strings.Contains(got, says) {
		t.Errorf("the seed: %q", got)
	}
	id := w["workspace_id"].(string)
	if got, _ := p.object("workspace", "sync", "push", id, folder)["git_missing"].(string); !strings.Contains(got, says) {
		t.Errorf("the push: %q", got)
	}
	if got := p.must("workspace", "status", id); !strings.Contains(got, "git can't work in a copy of") {
		t.Errorf("the status:\n%s", got)
	}
	if r := p.run(nil, "workspace", "create", environment, "--seed-path", folder, "--id-only"); r.code != 0 || strings.Count(r.stdout, "\n") != 1 || !strings.Contains(r.stderr, "pyro: warning: git can't work") {
		t.Errorf("with --id-only: %+v", r)
	}
}
