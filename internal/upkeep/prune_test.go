package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// manager returns a Manager with temporary folders.
func manager(t *testing.T) *workspace.Manager {
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	records := store.Open(d.State)
	t.Cleanup(func() { records.Close() })
	return &workspace.Manager{Dirs: d, Store: records, Environments: environment.Open(d)}
}

func TestPruneRemovesUnusedTemplates(t *testing.T) {
	m := manager(t)
	templates := template.Store{Dir: m.Dirs.Templates()}
	build := func(key template.Key) *template.Template {
		built, err := templates.Build(t.Context(), key, nil, func(_ context.Context, dir string) error {
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

	for _, dry := range []bool{true, false} {
		pruned, err := Prune(t.Context(), m, environment.PruneOptions{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		removed, kept := pruned.Removed, pruned.Kept
		if len(removed) != 1 || removed[0].Kind != "template" || removed[0].FreedBytes == 0 || pruned.FreedBytes != removed[0].FreedBytes {
			t.Errorf("dry run %v: removed %+v", dry, removed)
		}
		if len(kept) != 1 || kept[0].Name != filepath.Base(used.Dir) || kept[0].Reason != "a machine uses it" {
			t.Errorf("dry run %v: kept %+v", dry, kept)
		}
		if left, err := templates.List(); err != nil || dry && len(left) != 2 {
			t.Errorf("after a dry run: %v, %v", left, err)
		}
	}
	if left, err := templates.List(); err != nil || len(left) != 1 || left[0].Name != filepath.Base(used.Dir) {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNewestTemplateOfEachMachine(t *testing.T) {
	folder := t.TempDir()
	var all []template.Info
	for i, c := range []struct{ name, kernel, arguments string }{{"old", "a", "1 CPU"}, {"new", "b", "1 CPU"}, {"other", "a", "2 CPUs"}} {
		dir := filepath.Join(folder, c.name)
		at := time.Now().Add(time.Duration(i) * time.Second)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		all = append(all, template.Info{Name: c.name, Key: template.Key{Root: "r", Kernel: c.kernel, Arguments: c.arguments}})
	}
	if n := newest(folder, all); len(n) != 2 || !n["new"] || !n["other"] {
		t.Errorf("%v", n)
	}
}
