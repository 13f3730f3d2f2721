//go:build machine

package test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitProject creates a git checkout with a commit, with files that git ignores, and with a file
// that is not committed.
func gitProject(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		".gitignore": ".env\nnode_modules\nbuild\n", ".env": "secret", "node_modules/x/index.js": "module", "main.py": "print(1)\n", "lib/a.py": "a = 1\n",
		"lib/b.py": "b = 1\n", "old.py": "old = 1\n", "run.sh": "#!/bin/sh\n",
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hostGit(t, folder, "init", "-q", "-b", "main")
	hostGit(t, folder, "add", "-A")
	hostGit(t, folder, "commit", "-q", "-m", "first")
	return folder
}

func hostGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-C", folder}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// contents returns the content of all files below a folder, except .git. Of large files, such as
// disks, it returns the size.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if info, failed := d.Info(); failed == nil && info.Size() > 1<<20 {
			all[strings.TrimPrefix(path, folder+"/")] = fmt.Sprint(info.Size(), " bytes")
			return err
		}
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, folder+"/")] = string(text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPullProject brings changes back into a project that has more files than the workspace.
func TestPullProject(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	folder := gitProject(t)
	id := p.create("--seed-path", folder)
	if err := os.WriteFile(filepath.Join(folder, "hostfile"), []byte("own"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := contents(t, folder)
	p.shell(id, `echo 'print(2)' >main.py; rm old.py; mkdir -p pkg build; echo new >pkg/new.py; echo x >build/out; chmod +x run.sh; printf 'evil' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout`)

	listed := p.must("workspace", "sync", "pull", id, "--dry-run")
	if listed != "M  main.py\nD  old.py\nA  pkg\nA  pkg/new.py\nM  run.sh\n" {
		t.Errorf("listed:\n%s", listed)
	}
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("a dry run has changed the project: %q", got)
	}
	p.must("workspace", "sync", "pull", id)
	want["main.py"], want["pkg/new.py"] = "print(2)\n", "new\n"
	delete(want, "old.py")
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if info, err := os.Stat(filepath.Join(folder, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of run.sh: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(folder, ".git/hooks/post-checkout")); err == nil {
		t.Error("a hook was brought back")
	}
	if out := p.must("workspace", "sync", "pull", id); out != "" {
		t.Errorf("a second pull: %s", out)
	}

	// Both sides change the same files.
	p.shell(id, `echo 'print(3)' >main.py; echo 'a = 2' >lib/a.py`)
	for name, text := range map[string]string{"main.py": "print(4)\n", "lib/b.py": "b = 2\n"} {
		want[name] = text
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.fails(5, `"main.py": modified in the workspace, and modified on the host`, "workspace", "sync", "pull", id)
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("a pull with conflicts has changed the project: %q", got)
	}
	p.must("workspace", "sync", "pull", id, "--merge")
	want["lib/a.py"], want["main.py"] = "a = 2\n", "<<<<<<< host\nprint(4)\n=======\nprint(3)\n>>>>>>> workspace\n"
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("merged: %q", got)
	}
	p.must("workspace", "sync", "pull", id, "--theirs")
	want["main.py"] = "print(3)\n"
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("theirs: %q", got)
	}
}

// TestPullOfCommits brings the commits of a workspace back as a branch, and nothing else of its
// repository.
func TestPullOfCommits(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	folder := gitProject(t)
	id := p.create("--seed-path", folder)
	// Make the commit on the host, because the environment has no git.
	copied := filepath.Join(t.TempDir(), "copy")
	p.must("workspace", "export", id, ".", "--output", copied)
	if err := os.WriteFile(filepath.Join(copied, "main.py"), []byte("print(5)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hostGit(t, copied, "commit", "-q", "-a", "-m", "of the agent")
	hostGit(t, copied, "config", "core.fsmonitor", "touch /evil")
	commit := strings.TrimSpace(hostGit(t, copied, "rev-parse", "HEAD"))
	p.must("workspace", "cp", copied+"/.", id+":/workspace")
	config := hostGit(t, folder, "config", "--list", "--local")

	pulled := p.object("workspace", "sync", "pull", id, "--git")
	if pulled["branch"] != "pyro/"+id {
		t.Errorf("%v", pulled)
	}
	if got := strings.TrimSpace(hostGit(t, folder, "rev-parse", "pyro/"+id)); got != commit {
		t.Errorf("the branch is at %s, want %s", got, commit)
	}
	if got := hostGit(t, folder, "config", "--list", "--local"); got != config {
		t.Errorf("the configuration has changed: %s", got)
	}
	if got := strings.TrimSpace(hostGit(t, folder, "branch", "--show-current")); got != "main" {
		t.Errorf("the current branch is %s", got)
	}
	if pulled := p.object("workspace", "sync", "pull", id, "--git"); pulled["branch"] != nil || pulled["changed"] != false {
		t.Errorf("a second pull: %v", pulled)
	}
}

// TestExportKeepsTheUsersFiles exports over a project that has more files than the workspace.
func TestExportKeepsTheUsersFiles(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	folder := gitProject(t)
	id := p.create("--seed-path", folder)
	if err := os.WriteFile(filepath.Join(folder, "hostfile"), []byte("own"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := contents(t, folder)
	p.shell(id, "echo 'print(2)' >main.py; rm old.py; mkdir -p .git/hooks lib/.GIT; echo 'touch /tmp/attack' | tee .git/hooks/post-checkout >lib/.GIT/config")
	attacks := func() (found []string) {
		for _, name := range []string{".git/hooks/post-checkout", "lib/.GIT/config"} {
			if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
				found = append(found, name)
			}
		}
		return found
	}
	p.fails(4, "it exists already", "workspace", "export", id, ".", "--output", folder)
	note := p.run(nil, "workspace", "export", id, ".", "--output", folder, "--force")
	if found := attacks(); note.code != 0 || len(found) > 0 || !strings.Contains(note.stderr, "entries of .git are left out; --include-git writes them") {
		t.Errorf("the export wrote %q: %+v", found, note)
	}
	want["main.py"] = "print(2)\n"
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if out := p.must("workspace", "export", id, ".", "--output", folder, "--force", "--delete", "--dry-run"); out != "would delete hostfile\nwould delete old.py\n" {
		t.Errorf("listed:\n%s", out)
	}
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("a dry run has changed the project: %q", got)
	}
	p.must("workspace", "export", id, ".", "--output", folder, "--force", "--delete")
	delete(want, "hostfile")
	delete(want, "old.py")
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if err := os.Symlink(folder, folder+".link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(folder + ".link") })
	p.fails(5, "symbolic link", "workspace", "export", id, ".", "--output", folder+".link", "--force")
	p.fails(5, "it is a folder", "workspace", "export", id, "main.py", "--output", folder, "--force")
	if got := contents(t, folder); !maps.Equal(got, want) {
		t.Errorf("refused exports have changed the project: %q", got)
	}
	p.must("workspace", "export", id, ".", "--output", folder, "--force", "--include-git")
	if found := attacks(); len(found) != 2 {
		t.Errorf("with --include-git the export wrote only %q", found)
	}
}

// TestOperationsKeepUsersFiles tries the operations that write or remove files of the host in a
// folder full of the user's files. docs/security.md lists the files that each of them can change.
func TestOperationsKeepUsersFiles(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	folder := gitProject(t)
	git := hostGit(t, folder, "for-each-ref") + hostGit(t, folder, "status", "--porcelain")
	want := contents(t, folder)
	id := p.create("--seed-path", folder)
	p.shell(id, "mkdir -p out/lib /srv/lib && echo out >out/lib/a.py && echo new >/srv/lib/new.py")
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args    []string
		changed map[string]string // the files that the step changes, with their content; empty: any content
	}{
		{[]string{"workspace", "sync", "push", id, folder, "--dest", "pushed"}, nil},
		{[]string{"workspace", "cp", folder, id + ":/srv/copy"}, nil},
		{[]string{"workspace", "cp", id + ":/srv/lib", folder}, map[string]string{"lib/new.py": "new\n"}},
		{[]string{"workspace", "export", id, "out/lib", "--output", filepath.Join(folder, "lib"), "--force"}, map[string]string{"lib/a.py": "out\n"}},
		{[]string{"workspace", "export", id, "out/lib/a.py", "--output", filepath.Join(folder, "link"), "--force"}, map[string]string{"link": "out\n"}},
		{[]string{"workspace", "stop", id}, nil},
		{[]string{"workspace", "disk", "export", id, "--output", filepath.Join(folder, "disk.img")}, map[string]string{"disk.img": ""}},
		{[]string{"workspace", "disk", "export", id, "--output", filepath.Join(folder, "main.py"), "--force"}, map[string]string{"main.py": ""}},
		{[]string{"env", "prune", "--dry-run"}, nil},
		{[]string{"workspace", "delete", id}, nil},
	} {
		p.must(step.args...)
		got := contents(t, folder)
		for name, text := range step.changed {
			if text != "" && got[name] != text || got[name] == "" {
				t.Errorf("%v: %s is %.40q", step.args, name, got[name])
			}
			want[name] = got[name]
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v has changed other files", step.args)
		}
	}
	if got := hostGit(t, folder, "for-each-ref"); !strings.HasPrefix(git, got) {
		t.Errorf("the references have changed: %s", got)
	}
	if text, err := os.ReadFile("/etc/passwd"); err != nil || !strings.Contains(string(text), "root:") {
		t.Errorf("the target of a link: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, ".*pyro*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
