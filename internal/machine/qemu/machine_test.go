//go:build machine

package qemu

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// driverIn makes a driver that works in a cache.
func driverIn(t *testing.T, isolation machine.Isolation, d dirs.Dirs) *Driver {
	t.Helper()
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Isolation: isolation, Dirs: d, Store: environment.Open(d), Guest: program})
}

// sharedDirs are the user's own.
func sharedDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d, err := dirs.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// privateDirs is a cache with templates and verdicts of its own; environments and kernels are the user's.
func privateDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	shared := sharedDirs(t)
	for _, folder := range []string{shared.Environments(), shared.Kernels()} {
		if err := os.Symlink(folder, filepath.Join(d.Cache, filepath.Base(folder))); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// debian gives the environment that tests start machines from, and holds it until the test ends.
func debian(t *testing.T) machine.Root {
	t.Helper()
	report := progress.Func(func(e progress.Event) {
		if e.Done == 0 {
			t.Log(e.Phase, e.Subject)
		}
	})
	lease, err := environment.Open(sharedDirs(t)).Use(context.Background(), "debian:12", report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Close() })
	return machine.Root{Digest: lease.Digest, Image: lease.Image}
}

func TestConformance(t *testing.T) {
	root := debian(t)
	for _, isolation := range []machine.Isolation{machine.KVM, machine.TCG} {
		t.Run(string(isolation), func(t *testing.T) {
			d := driverIn(t, isolation, sharedDirs(t))
			if err := d.Prove(context.Background(), nil); err != nil && isolation != machine.TCG {
				t.Skip(err)
			}
			machinetest.Run(t, d, root)
		})
	}
}
