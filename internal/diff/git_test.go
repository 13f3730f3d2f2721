package diff_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestGitAppliesPatch checks that the old tree becomes the new tree when git applies the patch.
func TestGitAppliesPatch(t *testing.T) {
	difftest.NeedsGit(t)
	seeds := 200
	if testing.Short() {
		seeds = 30
	}
	for seed := range testenv.Seeds(t, seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			before := difftest.Random(r, 1+r.IntN(40))
			after := difftest.Change(r, before, 1+r.IntN(15))
			if r.IntN(10) == 0 {
				after = difftest.Random(r, 20) // The trees are unrelated.
			}
			var patch strings.Builder
			result, err := diff.Compare(context.Background(), before, after, &patch, diff.Options{IncludeIgnored: true})
			if err != nil || result.Truncated || result.Summary.PatchOmitted > 0 {
				t.Fatal(err, result)
			}
			if !utf8.ValidString(patch.String()) {
				t.Error("the patch is not UTF-8")
			}
			if patch.Len() == 0 {
				if said := difftest.Unequal(before.Git(), after.Git()); said != "" {
					t.Errorf("no patch for\n%s", said)
				}
				return
			}
			dir := t.TempDir()
			if err := before.Git().Write(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := difftest.Git(dir, patch.String(), "apply", "--whitespace=nowarn", "-"); err != nil {
				t.Fatalf("%v\n%s", err, patch.String())
			}
			made, err := difftest.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if said := difftest.Unequal(made.Git(), after.Git()); said != "" {
				t.Errorf("%s\n%s", said, patch.String())
			}
		})
	}
}
