package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// contents lists the files of the templates in these tests.
var contents = []string{"ram", "state", "overlay"}

func fill(_ context.Context, dir string) error {
	for _, file := range contents {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("content of "+file), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func build(t *testing.T, s Store, key Key) *Template {
	t.Helper()
	got, err := s.Build(context.Background(), key, nil, fill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(got.Close)
	return got
}

func TestKeyCoversEveryField(t *testing.T) {
	base := Key{"form", "qemu", "args", "host", "kernel", "initramfs", "root"}
	seen := map[string]bool{base.Hash(): true}
	for i := range 7 {
		k := base
		*[]*string{&k.Form, &k.QEMU, &k.Arguments, &k.Host, &k.Kernel, &k.Initramfs, &k.Root}[i] = "other"
		if seen[k.Hash()] {
			t.Errorf("field %d does not change the hash", i)
		}
		seen[k.Hash()] = true
	}
}

func TestBuildOnceThenOpen(t *testing.T) {
	s := Store{t.TempDir()}
	key := Key{Root: "a"}
	if _, err := s.Open(key); fault.KindOf(err) != fault.NotFound {
		t.Fatalf("got %v", err)
	}
	build(t, s, key)
	got, err := s.Open(key)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if b, _ := os.ReadFile(got.Path("ram")); string(b) != "content of ram" {
		t.Errorf("got %q", b)
	}
}

// TestHardLinksAreNotDamage makes and removes a hard link to a template's file. It checks that Open
// does not read the file again.
func TestHardLinksAreNotDamage(t *testing.T) {
	s, key := Store{t.TempDir()}, Key{Root: "a"}
	got := build(t, s, key)
	if digest, err := got.Digest("ram"); err != nil || digest == "" {
		t.Fatal(digest, err)
	}
	if _, err := got.Digest("no such file"); err == nil {
		t.Error("got a digest of a missing file")
	}
	described := func() string {
		b, err := os.ReadFile(got.Path(manifest))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before, other := described(), filepath.Join(t.TempDir(), "ram")
	for _, change := range []func() error{
		func() error { return os.Link(got.Path("ram"), other) },
		func() error { return os.Remove(other) },
	} {
		stamp, err := disk.StampOf(got.Path("ram"))
		// Repeats until the clock of the file system has advanced.
		for now := stamp; err == nil && now == stamp; now, err = disk.StampOf(got.Path("ram")) {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			change = func() error { return os.Chmod(got.Path("ram"), 0o644) }
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Open(key)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
		if described() != before { // verify writes new stamps to the manifest if it has read a file
			t.Error("the file was read again")
		}
	}
}

func TestConcurrentBuildersShareOne(t *testing.T) {
	s := Store{t.TempDir()}
	var built, waited atomic.Int32
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			got, err := s.Build(context.Background(), Key{Root: "a"}, func() { waited.Add(1) }, func(ctx context.Context, dir string) error {
				built.Add(1)
				time.Sleep(50 * time.Millisecond)
				return fill(ctx, dir)
			})
			if err != nil {
				t.Error(err)
				return
			}
			got.Close()
		})
	}
	all.Wait()
	if built.Load() != 1 || waited.Load() != 5 {
		t.Errorf("built %d times, %d waited", built.Load(), waited.Load())
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	s := Store{t.TempDir()}
	cause := errors.New("no room")
	if _, err := s.Build(context.Background(), Key{}, nil, func(_ context.Context, dir string) error {
		os.WriteFile(filepath.Join(dir, "ram"), []byte("x"), 0o600)
		return cause
	}); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "*.part")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDamageIsRepaired(t *testing.T) {
	damages := map[string]func(dir string) error{
		"flipped bit": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ram"), []byte("Content of ram"), 0o644)
		},
		"truncated":   func(dir string) error { return os.Truncate(filepath.Join(dir, "state"), 3) },
		"missing":     func(dir string) error { return os.Remove(filepath.Join(dir, "overlay")) },
		"no manifest": func(dir string) error { return os.Remove(filepath.Join(dir, manifest)) },
		"bad manifest": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, manifest), []byte("{"), 0o600)
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			s := Store{t.TempDir()}
			key := Key{Root: "a"}
			dir := build(t, s, key).Dir
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Open(key); fault.KindOf(err) != fault.Corrupt {
				t.Fatalf("got %v", err)
			}
			build(t, s, key)
			again, err := s.Open(key)
			if err != nil {
				t.Fatalf("not mended: %v", err)
			}
			again.Close()
		})
	}
}

func TestSameContentWithNewStampIsKept(t *testing.T) {
	s := Store{t.TempDir()}
	key := Key{Root: "a"}
	dir := build(t, s, key).Dir
	path := filepath.Join(dir, "ram")
	b, _ := os.ReadFile(path)
	os.Remove(path)
	os.WriteFile(path, b, 0o644)
	for range 2 {
		got, err := s.Open(key)
		if err != nil {
			t.Fatal(err)
		}
		got.Close()
	}
}
