package environment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// TestDryRun compares dry runs with the real runs that follow.
func TestDryRun(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	old := must[*ImageRef](t)(s.Use(t.Context(), "debian:12", nil))
	put(t, filepath.Join(cache, "content"), "new")
	must[Environment](t)(s.Pull(t.Context(), "debian:12", true, nil))
	base := must[*ImageRef](t)(s.Use(t.Context(), "debian:12-base", nil))
	abandoned := filepath.Join(s.root, stagingPrefix+"abandoned")
	if err := os.Mkdir(abandoned, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(abandoned, "part"), "half of a pull")
	reasons := func(p Pruned) map[string]string {
		all := map[string]string{}
		for _, k := range p.Kept {
			name := k.Name
			if name == "" {
				name = k.Digest
			}
			all[name] = k.Reason
			if k.SizeBytes == 0 {
				t.Errorf("the size of %s is unknown", name)
			}
		}
		return all
	}
	for _, step := range []struct {
		options PruneOptions
		before  func()
		removed int
		kept    map[string]string
	}{
		{PruneOptions{}, func() {}, 1, map[string]string{"debian:12": keptInstalled, "debian:12-base": keptInstalled, old.Digest: keptForMachine}},
		{PruneOptions{}, func() { old.Close() }, 1, map[string]string{"debian:12": keptInstalled, "debian:12-base": keptInstalled}},
		{PruneOptions{All: true, Keep: keeping(base.Digest)}, func() {}, 1, map[string]string{"debian:12-base": keptForWorkspace}},
		{PruneOptions{All: true}, func() {}, 0, map[string]string{"debian:12-base": keptForMachine}},
		{PruneOptions{All: true}, func() { base.Close() }, 1, map[string]string{}},
	} {
		step.before()
		before := filesBelow(t, s.root)
		step.options.DryRun = true
		plan := must[Pruned](t)(s.Prune(t.Context(), step.options))
		if diff := cmp.Diff(before, filesBelow(t, s.root)); diff != "" {
			t.Errorf("%+v: a dry run changed files:\n%s", step.options, diff)
		}
		if diff := cmp.Diff(step.kept, reasons(plan)); diff != "" || len(plan.Removed) != step.removed {
			t.Errorf("%+v: it would remove %+v, and keep:\n%s", step.options, plan.Removed, diff)
		}
		step.options.DryRun = false
		done := must[Pruned](t)(s.Prune(t.Context(), step.options))
		if diff := cmp.Diff(plan, done); diff != "" {
			t.Errorf("%+v: the real run differs from the dry run:\n%s", step.options, diff)
		}
	}
}

// TestDryRunWithSharedImage checks that an image counts once if several environments have it.
func TestDryRunWithSharedImage(t *testing.T) {
	s := testStore(t.TempDir())
	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	twin := pulled
	twin.Name = "twin:1"
	if err := s.writeRecord(twin); err != nil {
		t.Fatal(err)
	}
	plan := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true, DryRun: true}))
	done := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true}))
	if diff := cmp.Diff(plan, done); diff != "" || len(done.Removed) != 2 || done.FreedBytes < 1<<16 {
		t.Errorf("removed %+v, planned otherwise:\n%s", done, diff)
	}
}

// keeping returns a Keep for one image.
func keeping(digest string) Keep {
	return func(context.Context) (map[string]bool, error) { return map[string]bool{digest: true}, nil }
}

// TestKeepIsReadUnderLock checks that an image is not removed if a workspace was created just
// before the image was locked.
func TestKeepIsReadUnderLock(t *testing.T) {
	s := testStore(t.TempDir())
	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	added := must[*ImageRef](t)(s.Add(t.Context(), "debian:12", nil, func(w *mkext4.Writer) error {
		return w.Add("a", mkext4.Entry{Mode: unix.S_IFDIR | 0o755, Modified: time.Unix(1, 0)}, nil)
	}))
	added.Close()
	// created returns the images only if they are locked: the records are new.
	created := func(context.Context) (map[string]bool, error) {
		digests := map[string]bool{}
		for digest, in := range map[string]*Store{pulled.Digest: s, added.Digest: s.added} {
			held, err := flock.Held(filepath.Join(in.contentDir(digest), lockFile))
			if err != nil {
				return nil, err
			}
			digests[digest] = held
		}
		return digests, nil
	}
	pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true, Keep: created}))
	if len(pruned.Removed) != 0 || len(pruned.Kept) != 1 || pruned.Kept[0].Reason != keptForWorkspace {
		t.Errorf("got %+v", pruned)
	}
	if err := s.Sweep(t.Context(), created); err != nil {
		t.Error(err)
	}
	for _, digest := range []string{pulled.Digest, added.Digest} {
		must[*ImageRef](t)(s.UseDigest(t.Context(), digest, "debian:12", nil)).Close()
	}
	failed := errors.New("the database is locked")
	failing := func(context.Context) (map[string]bool, error) { return nil, failed }
	if _, err := s.Prune(t.Context(), PruneOptions{All: true, Keep: failing}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if err := s.Sweep(t.Context(), failing); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// filesBelow returns the sizes of all files below a folder.
func filesBelow(t *testing.T, root string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			all[path] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
