package environment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestPull(t *testing.T) {
	cache := t.TempDir()
	s := testStore(filepath.Join(cache, "pyro"))
	all := must[[]Environment](t)(s.List(t.Context()))
	if len(all) != 3 || slices.ContainsFunc(all, func(e Environment) bool { return e.Installed || e.Digest != "" || len(e.Packages) == 0 }) {
		t.Fatalf("the empty store lists %+v", all)
	}
	must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true}))
	if files, _ := os.ReadDir(cache); len(files) != 0 {
		t.Error("a look-up created files")
	}
	os.Mkdir(filepath.Join(cache, "pyro"), 0o755)

	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	if !pulled.Installed || !isDigest(pulled.Digest) || pulled.SizeBytes == 0 || pulled.VirtualSize != 16<<30 || time.Since(pulled.InstalledAt) > time.Minute {
		t.Errorf("pulled %+v", pulled)
	}
	inspected := must[Environment](t)(s.Inspect(t.Context(), "debian:12"))
	if inspected.Digest != pulled.Digest || inspected.Description == "" {
		t.Errorf("inspected %+v", inspected)
	}
	all = must[[]Environment](t)(s.List(t.Context()))
	if len(all) != 3 || !all[0].Installed || all[1].Installed || all[0].Name != "debian:12" {
		t.Errorf("lists %+v", all)
	}
	ref := must[*ImageRef](t)(s.Use(t.Context(), "debian:12", func(e progress.Event) { t.Errorf("a step of the use: %+v", e) }))
	defer ref.Close()
	if info, err := os.Stat(ref.Image); err != nil || info.Mode() != 0o444 || info.Size() != 16<<30 {
		t.Errorf("image: %v, %v", info.Mode(), err)
	}
	if n := builds(filepath.Join(cache, "pyro")); n != 1 {
		t.Errorf("%d builds", n)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestForceAndPrune(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	old := must[*ImageRef](t)(s.Use(t.Context(), "debian:12", nil))
	put(t, filepath.Join(cache, "content"), "new")
	new := must[Environment](t)(s.Pull(t.Context(), "debian:12", true, nil))
	if new.Digest == old.Digest || builds(cache) != 2 {
		t.Fatalf("%d builds, digest %s", builds(cache), new.Digest)
	}
	if got := must[Environment](t)(s.Inspect(t.Context(), "debian:12")); got.Digest != new.Digest {
		t.Error("the name refers to the old content")
	}
	if pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{})); len(pruned.Removed) != 0 {
		t.Errorf("pruned an environment in use: %+v", pruned)
	}
	old.Close()
	pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{}))
	if len(pruned.Removed) != 1 || pruned.Removed[0].Digest != old.Digest || pruned.Removed[0].Kind != "content" || pruned.FreedBytes < 1<<16 {
		t.Errorf("pruned %+v", pruned)
	}
	if _, err := os.Stat(old.Image); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old image is still there")
	}

	// Equal content is stored once, and a valid image is not replaced.
	same := must[Environment](t)(s.Pull(t.Context(), "debian:12", true, nil))
	if same.Digest != new.Digest || builds(cache) != 3 {
		t.Errorf("%d builds", builds(cache))
	}
	pruned = must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true}))
	if len(pruned.Removed) != 1 || pruned.Removed[0].Name != "debian:12" {
		t.Errorf("pruned %+v", pruned)
	}
	if files, _ := filepath.Glob(s.root + "/content/*"); len(files) != 0 || leftovers(t, s) != nil {
		t.Errorf("left: %v %v", files, leftovers(t, s))
	}
}

func TestConcurrentPullsShareOneDownload(t *testing.T) {
	cache := t.TempDir()
	put(t, filepath.Join(cache, "hang"), "")
	a, b := start(t, cache, "use"), start(t, cache, "use")
	reported := func() int {
		return strings.Count(a.stderr.String()+b.stderr.String(), "waiting for another pyro to pull")
	}
	testenv.Eventually(t, "one waits for the other", func() bool { return reported() > 0 })
	os.Remove(filepath.Join(cache, "hang"))
	testenv.Eventually(t, "both have it", func() bool { return a.stdout.String() != "" && b.stdout.String() != "" })
	if a.stdout.String() != b.stdout.String() || !strings.HasPrefix(a.stdout.String(), "sha256:") {
		t.Errorf("got %q and %q", a.stdout.String(), b.stdout.String())
	}
	if n := builds(cache); n != 1 {
		t.Errorf("%d builds", n)
	}
	if reported() != 1 {
		t.Errorf("got progress %s%s", a.stderr.String(), b.stderr.String())
	}
}

func TestConcurrentForcedPullsShareOneBuild(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	put(t, filepath.Join(cache, "hang"), "")
	var waiting atomic.Int32
	report := func(e progress.Event) {
		if strings.HasPrefix(e.Phase, "waiting for another pyro") && waiting.Add(1) == 2 {
			os.Remove(filepath.Join(cache, "hang"))
		}
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := s.Pull(t.Context(), "debian:12", true, report); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := builds(cache); n != 1 {
		t.Errorf("%d builds", n)
	}
}

func TestPruneSkipsUsedFiles(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	other := start(t, cache, "use")
	testenv.Eventually(t, "the other has it", func() bool { return other.stdout.String() != "" })
	if pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true})); len(pruned.Removed) != 0 {
		t.Fatalf("pruned %+v", pruned)
	}
	must[*ImageRef](t)(s.Use(t.Context(), "debian:12", nil)).Close()
	other.kill(t)
	if pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true})); len(pruned.Removed) != 1 {
		t.Errorf("pruned %+v", pruned)
	}
}

func TestConcurrentPrune(t *testing.T) {
	s := testStore(t.TempDir())
	pulled := must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
	p := &pruner{store: s, all: true}
	if err := os.Remove(s.recordPath("debian:12")); err != nil { // simulates another prune that removes the record after the listing
		t.Fatal(err)
	}
	if _, err := p.name(t.Context(), pulled); err != nil || len(p.done.Removed) != 0 {
		t.Errorf("pruned %+v, %v", p.done, err)
	}
}

func TestKilledPullLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	put(t, filepath.Join(cache, "hang"), "")
	for _, tidy := range []func(){
		func() {
			pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{}))
			if len(pruned.Removed) != 1 || pruned.Removed[0].Kind != "staging" || pruned.FreedBytes < 1<<20 {
				t.Errorf("pruned %+v", pruned)
			}
		},
		func() {
			os.Remove(filepath.Join(cache, "hang"))
			must[Environment](t)(s.Pull(t.Context(), "debian:12", false, nil))
		},
	} {
		os.Remove(filepath.Join(cache, "hanging"))
		other := start(t, cache, "use")
		testenv.Eventually(t, "the build hangs", func() bool { return exists(filepath.Join(cache, "hanging")) })
		if pruned := must[Pruned](t)(s.Prune(t.Context(), PruneOptions{All: true})); len(pruned.Removed) != 0 {
			t.Errorf("pruned a running pull: %+v", pruned)
		}
		other.kill(t)
		if len(leftovers(t, s)) != 1 {
			t.Fatalf("left: %v", leftovers(t, s))
		}
		tidy()
		if left := leftovers(t, s); left != nil {
			t.Errorf("left: %v", left)
		}
	}
}

func TestCancelledPull(t *testing.T) {
	cache := t.TempDir()
	s := testStore(cache)
	put(t, filepath.Join(cache, "hang"), "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Pull(ctx, "debian:12", false, nil)
		done <- err
	}()
	testenv.Eventually(t, "the build hangs", func() bool { return exists(filepath.Join(cache, "hanging")) })

	short, stop := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer stop()
	var reported []string
	if _, err := s.Pull(short, "debian:12", false, phasesOf(&reported)); fault.KindOf(err) != fault.Timeout {
		t.Errorf("waiting: %v", err)
	}
	if !slices.Equal(reported, []string{"waiting for another pyro to pull"}) {
		t.Errorf("got reports %q", reported)
	}
	cancel()
	if err := <-done; fault.KindOf(err) != fault.Canceled {
		t.Errorf("got %v", err)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestDamageIsRepaired(t *testing.T) {
	change := func(path string, at int64) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		os.Chmod(path, 0o644)
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := file.WriteAt([]byte("damage"), at); err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime(), info.ModTime()) // like a disk that returns wrong data
	}
	cache := t.TempDir()
	s := testStore(cache)
	ref := must[*ImageRef](t)(s.Use(t.Context(), "debian:12", nil))
	ref.Close()
	for name, c := range map[string]struct {
		damage   func(s *Store, image string) error
		reported string // empty if no pull is needed
	}{
		"truncated": {func(_ *Store, image string) error {
			return errors.Join(os.Chmod(image, 0o644), os.Truncate(image, 1<<30))
		}, "pulling again: the image is truncated"},
		"changed":           {func(_ *Store, image string) error { return change(image, 5000) }, "pulling again: the image has been changed"},
		"changed in a hole": {func(_ *Store, image string) error { return change(image, 10<<30) }, "pulling again: the image has been changed"},
		"image gone":        {func(_ *Store, image string) error { return os.Remove(image) }, "pulling again: the image is missing"},
		"folder gone":       {func(_ *Store, image string) error { return os.RemoveAll(filepath.Dir(image)) }, "installing packages"},
		"name gone":         {func(s *Store, _ string) error { return os.Remove(s.recordPath("debian:12")) }, "installing packages"},
		"name is rubbish": {func(s *Store, _ string) error {
			return os.WriteFile(s.recordPath("debian:12"), []byte(`{"name":"debian:12","digest":"sha256:../../../etc"}`), 0o600)
		}, "installing packages"},
		"only touched": {func(_ *Store, image string) error { return os.Chtimes(image, time.Now(), time.Now()) }, ""},
		"record gone":  {func(_ *Store, image string) error { return os.Remove(filepath.Join(filepath.Dir(image), imageInfo)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := builds(cache)
			if err := c.damage(s, ref.Image); err != nil {
				t.Fatal(err)
			}
			var reported []string
			again := must[*ImageRef](t)(s.Use(t.Context(), "debian:12", phasesOf(&reported)))
			defer again.Close()
			if again.Digest != ref.Digest {
				t.Error("another digest")
			}
			if got, want := builds(cache)-before, min(1, len(c.reported)); got != want {
				t.Errorf("%d builds, want %d", got, want)
			}
			if c.reported != "" && !slices.Contains(reported, c.reported) {
				t.Errorf("got reports %q", reported)
			}
			if err := s.verify(t.Context(), again.Digest, "", nil); err != nil {
				t.Error(err)
			}
			reported = nil
			must[*ImageRef](t)(s.Use(t.Context(), "debian:12", phasesOf(&reported))).Close()
			if len(reported) != 0 {
				t.Errorf("got reports %q from the next use, want none", reported)
			}
			if left := leftovers(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}
