package patch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// seeds returns the number of random trees that a test uses.
func seeds() int {
	if testing.Short() {
		return 20
	}
	return 60
}

// TestDiffIsPatch checks that package patch can apply the output of package diff.
func TestDiffIsPatch(t *testing.T) {
	for seed := range testenv.Seeds(t, 4*seeds()) {
		r := rand.New(rand.NewPCG(seed, 2))
		before := difftest.Random(r, 1+r.IntN(40)).Git()
		after := difftest.Change(r, before, 1+r.IntN(15))
		var text strings.Builder
		result, err := diff.Compare(context.Background(), before, after, &text, diff.Options{IncludeIgnored: true})
		if err != nil || text.Len() == 0 {
			continue
		}
		made, plan, err := check(t, text.String(), before)
		if err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, text.String())
			continue
		}
		if said := difftest.Unequal(made.Git(), after.Git()); said != "" {
			t.Errorf("seed %d: %s\n%s", seed, said, text.String())
		}
		if plan.Summary.LinesAdded != result.Summary.LinesAdded || plan.Summary.LinesRemoved != result.Summary.LinesRemoved || plan.Summary.HunksMoved != 0 {
			t.Errorf("seed %d: %+v, not %+v", seed, plan.Summary, result.Summary)
		}
	}
}

// repository is a git repository that stores test trees.
type repository struct {
	t   *testing.T
	dir string
}

func (r repository) git(args ...string) string {
	out, err := difftest.Git(r.dir, "", args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// tree stores a tree in git, and returns the tree's hash.
func (r repository) tree(files difftest.Tree) string {
	entries, _ := os.ReadDir(r.dir)
	for _, e := range entries {
		if e.Name() != ".git" {
			os.RemoveAll(filepath.Join(r.dir, e.Name()))
		}
	}
	if err := files.Write(r.dir); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", "--all", "--force")
	return strings.TrimSpace(r.git("write-tree"))
}

var gitOptions = [][]string{
	{}, {"-M"}, {"-M10%", "-C", "--find-copies-harder"}, {"--no-prefix"}, {"-U1"}, {"-U20"}, {"--src-prefix=i/", "--dst-prefix=w/"}, {"-B10%/10%", "-M10%"}, {"--patience"},
}

// TestGitPatches applies patches that git created from random trees with many combinations of
// options.
func TestGitPatches(t *testing.T) {
	difftest.NeedsGit(t)
	for seed := range testenv.Seeds(t, seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			before := difftest.Random(r, 1+r.IntN(40)).Git()
			after := difftest.Change(r, before, 1+r.IntN(15)).Git()
			repo := repository{t, t.TempDir()}
			repo.git("init", "--quiet", "--template=", "--object-format="+[]string{"sha1", "sha1", "sha1", "sha256"}[seed%4])
			options := gitOptions[int(seed)%len(gitOptions)]
			args := append([]string{"diff-tree", "-r", "-p", "--binary"}, options...)
			text := repo.git(append(args, repo.tree(before), repo.tree(after))...)
			if text == "" {
				t.Skip("nothing differs")
			}
			made, _, err := check(t, text, before)
			if err != nil && slices.Contains(options, "-B10%/10%") { // With this option, git creates patches that it rejects itself.
				repo.tree(before)
				if _, refused := difftest.Git(repo.dir, text, "apply", "--whitespace=nowarn", "-"); refused != nil {
					t.Skip(refused)
				}
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if said := difftest.Unequal(made.Git(), after); said != "" {
				t.Errorf("%s\n%s", said, text)
			}
		})
	}
}

// TestDeletedBinaryFile checks that a full hash is sufficient for deleting a binary file, as in
// git.
func TestDeletedBinaryFile(t *testing.T) {
	difftest.NeedsGit(t)
	repo := repository{t, t.TempDir()}
	repo.git("init", "--quiet", "--template=")
	before := difftest.Tree{"b": {Mode: 0o644, Data: []byte{0, 1}}}
	text := repo.git("diff-tree", "-r", "-p", "--full-index", repo.tree(before), repo.tree(difftest.Tree{}))
	if made, _, err := check(t, text, before); err != nil || len(made) != 0 {
		t.Errorf("%v, %v\n%s", made, err, text)
	}
	if _, _, err := check(t, text, difftest.Tree{"b": {Mode: 0o644, Data: []byte{0, 2}}}); fault.KindOf(err) != fault.Precondition {
		t.Errorf("another content: %v", err)
	}
}

// TestPatchForOtherTree applies each patch to another tree than the one that it was created for. If
// both git and Check accept a patch, their results must be equal.
func TestPatchForOtherTree(t *testing.T) {
	difftest.NeedsGit(t)
	var both, neither, gits, ours int
	t.Cleanup(func() {
		t.Logf("both applied %d, neither %d, only git %d, only the plan %d", both, neither, gits, ours)
		if both < seeds()/5 {
			t.Error("that proves little")
		}
	})
	for seed := range testenv.Seeds(t, seeds()) {
		r := rand.New(rand.NewPCG(seed, 4))
		before := difftest.Random(r, 1+r.IntN(5)).Git()
		after := difftest.Change(r, before, 1+r.IntN(3)).Git()
		other := difftest.Change(r, before, 1+r.IntN(2)).Git()
		var text strings.Builder
		if _, err := diff.Compare(context.Background(), before, after, &text, diff.Options{IncludeIgnored: true}); err != nil || text.Len() == 0 {
			continue
		}
		dir := t.TempDir()
		if err := other.Write(dir); err != nil {
			t.Fatal(err)
		}
		_, gitErr := difftest.Git(dir, text.String(), "apply", "--whitespace=nowarn", "-")
		made, _, err := check(t, text.String(), other)
		switch {
		case gitErr == nil && err == nil:
			both++
			want, _ := difftest.Read(dir)
			if said := difftest.Unequal(made.Git(), want.Git()); said != "" {
				t.Errorf("seed %d: %s\n%s", seed, said, text.String())
			}
		case gitErr == nil:
			gits++
			t.Logf("seed %d, only git: %v", seed, err)
		case err == nil:
			ours++
			t.Logf("seed %d, only the plan: %v", seed, gitErr)
		default:
			neither++
		}
	}
}

// stricter contains the documented reasons why Check rejects hunks that git applies. See
// docs/patches.md.
var stricter = []string{"does not clearly belong", "is already applied", "has no context, and", "has neither context nor removed lines", "before the hunk before it"}

// TestHunkPositionsMatchGit compares Check with git. The files have repeated lines, and the
// patches have different amounts of context. Each patch is applied to the old file, to a similar
// file, and to the new file. If both accept the patch, the results must be equal. If only one
// accepts the patch, the reason must be documented.
func TestHunkPositionsMatchGit(t *testing.T) {
	difftest.NeedsGit(t)
	counts := map[string]int{}
	t.Cleanup(func() {
		t.Log(counts)
		if counts["same"] < 3*seeds() || counts["neither"] < seeds() {
			t.Error("that proves little")
		}
	})
	repo := repository{t, t.TempDir()}
	for seed := range testenv.Seeds(t, 5*seeds()) {
		r := rand.New(rand.NewPCG(seed, 5))
		before := fewLines(r, 2+r.IntN(12), 2+r.IntN(8))
		after := changeLines(r, before)
		repo.write("before", before)
		repo.write("after", after)
		text, err := difftest.Git(repo.dir, "", "diff", "--no-index", fmt.Sprintf("-U%d", r.IntN(4)), "before", "after")
		if err == nil {
			continue // The texts are equal.
		}
		_, hunks, _ := strings.Cut(text, "+++ b/after\n")
		text = "--- a/f\n+++ b/f\n" + hunks
		for name, other := range map[string]string{"before": before, "like it": changeLines(r, before), "after": after} {
			dir := t.TempDir()
			if err := files("f", other).Write(dir); err != nil {
				t.Fatal(err)
			}
			_, gitErr := difftest.Git(dir, text, "apply", "--whitespace=nowarn", "-")
			made, plan, err := check(t, text, files("f", other))
			says := func(said string) {
				t.Errorf("seed %d, %s: %s\ngit: %v\nplan: %v\n%q\n%s", seed, name, said, gitErr, err, other, text)
			}
			switch {
			case gitErr == nil && err == nil:
				counts["same"]++
				want, _ := difftest.Read(dir)
				if said := difftest.Unequal(made.Git(), want.Git()); said != "" {
					says(said)
				}
			case gitErr == nil:
				counts["only git"]++
				if !slices.ContainsFunc(stricter, func(why string) bool { return strings.Contains(err.Error(), why) }) {
					says("only git")
				}
			case err == nil:
				counts["only the plan"]++
				if !strings.Contains(text, "@@ -1,") || plan.Summary.HunksMoved == 0 {
					says("only the plan")
				}
			default:
				counts["neither"]++
			}
		}
	}
}

func (r repository) write(name, content string) {
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// fewLines returns count lines. There are at most kinds different lines.
func fewLines(r *rand.Rand, count, kinds int) string {
	var b strings.Builder
	for range count {
		fmt.Fprintf(&b, "%c\n", 'a'+r.IntN(kinds))
	}
	return b.String()
}

func changeLines(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1]
	for range 1 + r.IntN(2) {
		at := r.IntN(len(lines) + 1)
		switch {
		case r.IntN(2) == 0 || at == len(lines):
			lines = slices.Insert(lines, at, fewLines(r, 1+r.IntN(2), 9))
		default:
			lines = slices.Delete(lines, at, at+1)
		}
	}
	return strings.Join(lines, "")
}
