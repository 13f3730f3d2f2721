package host

import (
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

func TestConformance(t *testing.T) {
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Run(t, New(Config{Dirs: dirs.Dirs{Cache: t.TempDir()}, Guest: program}), machine.Root{})
}
