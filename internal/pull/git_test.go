package pull_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/hostfolder"
	"github.com/pyro-mcp/pyro/internal/pull"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// pulled pulls the changes between two trees into a folder, and returns the plan.
func pulled(t *testing.T, baseline, workspace difftest.Tree, folder string, resolve pull.Resolution) *pull.Plan {
	t.Helper()
	changed, err := diff.Compare(t.Context(), baseline, workspace, nil, diff.Options{IncludeIgnored: true})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	plan, err := pull.New(t.Context(), changed.Entries, pull.Sides{Baseline: baseline, Workspace: workspace, Folder: host}, resolve)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Conflicts()) > 0 || plan.Empty() {
		return plan
	}
	if err := applyPlan(t, plan, folder); err != nil {
		t.Fatal(err)
	}
	return plan
}

func applyPlan(t *testing.T, plan *pull.Plan, folder string) error {
	t.Helper()
	var operations bytes.Buffer
	if err := plan.WriteTar(t.Context(), &operations); err != nil {
		t.Fatal(err)
	}
	_, err := hostfolder.Journal(t.TempDir()).Change(context.Background(), folder, &operations)
	return err
}

// TestPullMergesAsGit merges random trees, and compares the results with git merge.
func TestPullMergesAsGit(t *testing.T) {
	testenv.NeedsTool(t, "git")
	seeds := 500
	if testing.Short() {
		seeds = 60
	}
	for seed := range testenv.Seeds(t, seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 34))
			baseline := difftest.Random(r, 1+r.IntN(25)).Git()
			workspace := randomModes(r, difftest.Change(r, baseline, 1+r.IntN(6)).Git())
			host := randomModes(r, difftest.Change(r, baseline, r.IntN(6)).Git())
			want, conflicts := gitMerge(t, baseline, workspace, host)

			folder := t.TempDir()
			if err := host.Write(folder); err != nil {
				t.Fatal(err)
			}
			plan := pulled(t, baseline, workspace, folder, pull.Merge)
			got, err := difftest.Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			unresolved := map[string]bool{}
			for _, c := range plan.Changes {
				if c.Result == pull.Conflicted || c.Result == pull.Marked {
					unresolved[c.Path] = true
				}
			}
			if len(conflicts) == 0 && len(unresolved) == 0 {
				if said := difftest.Unequal(got.Git(), want); said != "" {
					t.Error(said)
				}
				return
			}
			if (len(conflicts) == 0) != (len(unresolved) == 0) {
				t.Errorf("git has the conflicts %q, pyro has %v", conflicts, plan.Changes)
			}
			if len(plan.Conflicts()) > 0 {
				if said := difftest.Unequal(got.Git(), host.Git()); said != "" {
					t.Errorf("a pull with conflicts has changed the folder: %s", said)
				}
			}
		})
	}
}

// randomModes sets random permissions that git ignores.
func randomModes(r *rand.Rand, tree difftest.Tree) difftest.Tree {
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		if n := tree[path]; n.Mode&fs.ModeSymlink == 0 {
			n.Mode ^= fs.FileMode(r.IntN(0o100))
			tree[path] = n
		}
	}
	return tree
}

// gitMerge merges the workspace into the host with git, and returns the result, or the conflicts.
func gitMerge(t *testing.T, baseline, workspace, host difftest.Tree) (merged difftest.Tree, conflicts []string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) (string, error) {
		return difftest.Git(dir, "", append([]string{"-c", "user.name=x", "-c", "user.email=x@x", "-c", "core.safecrlf=false", "-c", "core.autocrlf=false"}, args...)...)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := git(args...)
		if err != nil {
			t.Fatal(args, err)
		}
		return out
	}
	commit := func(tree difftest.Tree) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != ".git" {
				os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
		if err := tree.Write(dir); err != nil {
			t.Fatal(err)
		}
		must("add", "-A", "-f")
		must("commit", "-q", "--allow-empty", "-m", "x")
	}
	must("init", "-q", "-b", "host")
	commit(baseline)
	must("branch", "workspace")
	commit(host)
	must("checkout", "-q", "-f", "workspace")
	commit(workspace)
	must("checkout", "-q", "-f", "host")
	if _, err := git("merge", "-q", "-s", "recursive", "-X", "no-renames", "-m", "x", "workspace"); err != nil {
		return nil, strings.Split(must("status", "--porcelain"), "\n")
	}
	os.RemoveAll(filepath.Join(dir, ".git"))
	merged, err := difftest.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return merged.Git(), nil
}
