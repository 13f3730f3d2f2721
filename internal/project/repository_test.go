package project

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// repositories is a script that creates checkouts with a .git that leads out of their folders, and
// damaged checkouts. Each repository has a secret in its configuration, hooks and FETCH_HEAD.
const repositories = `set -e
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git config --global user.name You; git config --global user.email you@example.com; git config --global init.defaultBranch main
git config --global protocol.file.allow always; git config --global advice.detachedHead false
secrets() {
	git -C "$1" config remote.origin.url https://you:secret@example.com/x.git
	git -C "$1" config http.extraheader "Authorization: secret"
	git -C "$1" config include.path /secret/config
	dir=$(git -C "$1" rev-parse --git-common-dir); mkdir -p "$1/$dir/hooks"; echo 'echo secret' >"$1/$dir/hooks/pre-commit"
	echo secret >"$(cd $1; git rev-parse --absolute-git-dir)/FETCH_HEAD"
}
edit() { # staged, modified and new files
	(cd "$1"; echo staged >staged; git add staged; echo more >>a; echo new >untracked; echo x >excluded)
}
git init -q main; cd main
for i in 1 2 3; do echo $i >a; echo $i >b; git add .; git commit -qm "commit $i"; done
git branch topic HEAD~1; echo stashed >>b; git stash -q; git tag v1; echo excluded >>.git/info/exclude
git update-ref refs/remotes/origin/topic HEAD~2; git config branch.topic.remote origin; git config branch.topic.merge refs/heads/topic
git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
git repack -q -a -d; echo 4 >a; git commit -qam "commit 4"; git pack-refs --all; cd ..
secrets main
git -C main worktree add -q ../worktree topic; edit worktree; secrets worktree
git -C main worktree add -q --detach ../merging; (cd merging; echo m >a; git commit -qam m; echo o >../o; git merge -q topic || true; git checkout -q -b side HEAD~2; echo s >a; git commit -qam s; git merge main >/dev/null || true)
git clone -q --bare main bare; git -C bare worktree add -q ../of-bare topic; edit of-bare
git clone -q --shared main shared; git clone -q --reference shared main reference 2>/dev/null; edit shared; edit reference; secrets shared
git clone -q --depth 1 "file://$PWD/main" shallow; git -C shallow worktree add -q -b w ../of-shallow; edit of-shallow
git init -q super; cd super; git submodule --quiet add "$PWD/../main" sub; git commit -qm super; cd ..
edit super/sub; secrets super/sub; mkdir only; git -C super worktree add -q ../super-tree; git -C super-tree submodule --quiet update --init; edit super-tree/sub
git -C main worktree add -q "$PWD/main/nested" -b nested; edit main/nested
git -C main sparse-checkout list >/dev/null 2>&1 || true
git -C main worktree add -q --no-checkout ../sparse -b sparse; git -C sparse sparse-checkout set --no-cone /a >/dev/null; git -C sparse checkout -q

git init -q --separate-git-dir elsewhere separate; git -C main worktree add -q ../moved -b moved; mv moved moved-away
git -C main worktree add -q ../gone -b gone; echo "gitdir: $PWD/nowhere" >gone/.git
mkdir -p fake/sub fake/git; echo "gitdir: ../git" >fake/sub/.git; echo "ref: refs/heads/main" >fake/git/HEAD; echo "$PWD/main/.git" >fake/git/commondir; echo "$PWD/fake/sub/.git" >fake/git/gitdir
mkdir -p linked/sub; git init -q --bare linked/git; rm -rf linked/git/objects; ln -s ../../main/.git/objects linked/git/objects; echo "gitdir: ../git" >linked/sub/.git; git --git-dir linked/git config core.bare false; git --git-dir linked/git config core.worktree "$PWD/linked/sub"
mkdir thief; echo "gitdir: $PWD/main/.git" >thief/.git; mkdir symlink; ln -s ../main/.git symlink/.git
git clone -q --shared main lost; echo "$PWD/no-objects" >lost/.git/objects/info/alternates; mkdir around; git clone -q --shared main around/below
mkdir beside; git clone -q main beside/main; git clone -q --shared beside/main beside/below
git clone -q main plain; echo "not a repository" >only/.git
`

// same are the commands whose results must be the same on the host and in the copy.
const same = `git status --porcelain=v2 --branch; git log --format='%H %D %s'; git diff; git diff --cached; git stash list; git for-each-ref; git reflog
git fsck --connectivity-only 2>&1 | grep -v dangling; true`

func TestCopiedCheckoutIsComplete(t *testing.T) {
	dir := madeRepositories(t)
	for top, below := range map[string]string{
		"worktree": ".", "merging": ".", "of-bare": ".", "shared": ".", "reference": ".", "of-shallow": ".", "super/sub": ".", "sparse": ".", "super-tree": "sub", "main": "nested",
	} {
		t.Run(top+"/"+below, func(t *testing.T) {
			host := filepath.Join(dir, top)
			want := script(t, filepath.Join(host, below), dir, same)
			copied := filepath.Join(t.TempDir(), "copy")
			script(t, dir, dir, `cp -a "$0" "$1"`, host, copied)
			replaced := 0
			for _, checkout := range []string{".", below} {
				r, err := ExternalRepository(context.Background(), host, filepath.Join(host, checkout))
				if err != nil {
					t.Fatal(err)
				}
				if r != nil {
					writeGit(t, r, filepath.Join(copied, checkout, ".git"))
					replaced++
				}
				if below == "." {
					break
				}
			}
			if replaced == 0 {
				t.Fatal("no repository leads out: the test covered nothing")
			}
			// Without the originals, only a complete copy works.
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Fatal(err)
			}
			defer os.Rename(dir+"-away", dir)
			got := script(t, filepath.Join(copied, below), copied, same)
			if want, got = strings.ReplaceAll(want, dir, ""), strings.ReplaceAll(got, dir, ""); got != want {
				t.Errorf("on the host:\n%s\nin the copy:\n%s", want, got)
			}
			if found := script(t, copied, copied, `grep -rl secret .git || true`); found != "" && top != "main" {
				t.Errorf("secrets are in %s", found)
			}
			script(t, filepath.Join(copied, below), copied, "git add -A 2>/dev/null; git -c user.name=x -c user.email=x@example.com commit -qm more --allow-empty")
		})
	}
}

// TestUncopyableRepository checks the errors. If a repository does not name the folder as
// its checkout, none of its files must be copied.
func TestUncopyableRepository(t *testing.T) {
	dir := madeRepositories(t)
	for top, says := range map[string]string{
		"separate": "does not name it as its checkout", "moved-away": "worktree repair", "gone": "does not exist on this host", "thief": "does not name it",
		"symlink": "symbolic link", "lost": "does not exist on this host", "around/below": "repack -a -d", "beside/below": "repack -a -d",
		"fake/sub": "does not name it", "linked/sub": "its objects are outside",
	} {
		at := filepath.Join(dir, top)
		from := at
		if strings.Contains(top, "/") {
			from = filepath.Dir(at)
		}
		if r, err := ExternalRepository(context.Background(), from, at); r != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v, not %q", top, r, err, says)
		}
	}
	for _, top := range []string{"main", "plain", "only", "super", "nothing"} {
		if r, err := ExternalRepository(context.Background(), filepath.Join(dir, top), filepath.Join(dir, top)); r != nil || err != nil {
			t.Errorf("%s: %+v, %v", top, r, err)
		}
	}
	if r, err := ExternalRepository(context.Background(), filepath.Join(dir, "super"), filepath.Join(dir, "super/sub")); r != nil || err != nil {
		t.Errorf("a submodule of a copied project: %+v, %v", r, err)
	}
	script(t, dir, dir, "cd moved-away; git worktree repair 2>/dev/null")
	if r, err := ExternalRepository(context.Background(), filepath.Join(dir, "moved-away"), filepath.Join(dir, "moved-away")); r == nil || err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

func TestWithoutPassword(t *testing.T) {
	for remote, want := range map[string]string{
		"https://you:secret@example.com/x.git": "https://example.com/x.git", "https://token@example.com/x": "https://example.com/x",
		"ssh://git:secret@example.com:22/x": "ssh://git@example.com:22/x", "git@example.com:x.git": "git@example.com:x.git", "../main": "../main",
		"ext::sh -c secret": "", "https://a b@%zz/": "", "ssh://git@[::1]/x": "ssh://git@[::1]/x",
	} {
		if got := withoutPassword(remote); got != want {
			t.Errorf("%s became %q, not %q", remote, got, want)
		}
	}
}

func madeRepositories(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Lacks(t, "git: ", err)
	}
	dir := filepath.Join(resolveLinks(t.TempDir()), "repositories")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, dir, dir, repositories)
	return dir
}

// script runs a script in a folder and returns its output. The parameter home is the home folder of
// the script.
func script(t *testing.T, dir, home, text string, args ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", text}, args...)...)
	cmd.Dir, cmd.Env = dir, append(gitEnv(filepath.Dir(home)), "HOME="+home, "GIT_ALLOW_PROTOCOL=file", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// writeGit replaces a .git by the files of a repository.
func writeGit(t *testing.T, r *Repository, at string) {
	t.Helper()
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := r.Files(context.Background(), func(name, host string, text []byte) error {
		to := filepath.Join(at, name)
		if strings.HasSuffix(name, "/") {
			return os.MkdirAll(to, 0o755)
		}
		if host != "" {
			var err error
			if text, err = os.ReadFile(host); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
}
