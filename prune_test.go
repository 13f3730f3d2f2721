package pyro

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/machine/template"
)

func TestPruneRemovesWhatNothingStartsFrom(t *testing.T) {
	p, err := New(Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	store := template.Store{Dir: p.dirs.Templates()}
	build := func(key template.Key) *template.Template {
		built, err := store.Build(t.Context(), key, nil, func(_ context.Context, dir string) error {
			for _, file := range []string{"ram", "state"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	build(template.Key{Root: "sha256:gone"}).Close()
	used := build(template.Key{Root: "sha256:gone, but a machine runs"})
	defer used.Close()

	r, err := p.PruneEnvironments(t.Context(), PruneEnvironmentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Removed) != 1 || r.Removed[0].Kind != "template" || r.FreedBytes != r.Removed[0].FreedBytes {
		t.Errorf("%+v", r)
	}
	if left, err := store.List(); err != nil || len(left) != 1 || left[0].Name != filepath.Base(used.Dir) {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNewestTemplateOfEachMachine(t *testing.T) {
	p, err := New(Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var all []template.Info
	for i, c := range []struct{ name, kernel, arguments string }{{"old", "a", "1 CPU"}, {"new", "b", "1 CPU"}, {"other", "a", "2 CPUs"}} {
		dir := filepath.Join(p.dirs.Templates(), c.name)
		at := time.Now().Add(time.Duration(i) * time.Second)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		all = append(all, template.Info{Name: c.name, Key: template.Key{Root: "r", Kernel: c.kernel, Arguments: c.arguments}})
	}
	if n := p.newest(all); len(n) != 2 || !n["new"] || !n["other"] {
		t.Errorf("%v", n)
	}
}
