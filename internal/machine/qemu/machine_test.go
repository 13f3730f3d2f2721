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
)

// driverIn creates a driver that uses the given folders.
func driverIn(t *testing.T, isolation machine.Isolation, d dirs.Dirs) *Driver {
	t.Helper()
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Isolation: isolation, Dirs: d, Store: environment.Open(d), Guest: program})
}

// privateDirs returns folders without templates and verdicts. Only environments and kernels are
// shared with the user's folders.
func privateDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	shared := machinetest.SharedDirs(t)
	for _, folder := range []string{shared.Environments(), shared.Kernels()} {
		if err := os.Symlink(folder, filepath.Join(d.Cache, filepath.Base(folder))); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestConformance(t *testing.T) {
	root := machinetest.Debian(t)
	for _, isolation := range []machine.Isolation{machine.KVM, machine.TCG} {
		t.Run(string(isolation), func(t *testing.T) {
			d := driverIn(t, isolation, machinetest.SharedDirs(t))
			if err := d.Prove(context.Background(), nil); err != nil && isolation != machine.TCG {
				t.Skip(err) // some hosts have no hardware virtualisation
			}
			machinetest.Run(t, d, root)
		})
	}
}
