//go:build machine

package gvisor

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

// TestMain has the tests use the helper that was built with pyro.
func TestMain(m *testing.M) {
	if os.Getenv("PYRO_RUNSC") == "" {
		if built, err := filepath.Abs("../../../bin/" + HelperName); err == nil {
			os.Setenv("PYRO_RUNSC", built)
		}
	}
	os.Exit(m.Run())
}

func sharedDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d, err := dirs.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func driverIn(t *testing.T, d dirs.Dirs) *Driver {
	t.Helper()
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Dirs: d, Guest: program})
}

// debian gives the environment that tests start machines from, and holds it until the test ends.
func debian(t *testing.T) machine.Root {
	t.Helper()
	lease, err := environment.Open(sharedDirs(t)).Use(context.Background(), "debian:12", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Close() })
	return machine.Root{Digest: lease.Digest, Image: lease.Image}
}

func TestConformance(t *testing.T) {
	machinetest.Run(t, driverIn(t, sharedDirs(t)), debian(t))
}
