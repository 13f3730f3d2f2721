//go:build machine

package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// TestMain uses the helper in bin, unless PYRO_RUNSC names another one.
func TestMain(m *testing.M) {
	if os.Getenv("PYRO_RUNSC") == "" {
		if built, err := filepath.Abs("../../../bin/" + HelperName); err == nil {
			os.Setenv("PYRO_RUNSC", built)
		}
	}
	os.Exit(m.Run())
}

func driverIn(t *testing.T, d dirs.Dirs) *Driver {
	t.Helper()
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Dirs: d, Guest: program})
}

func TestConformance(t *testing.T) {
	machinetest.Run(t, driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t))
}
