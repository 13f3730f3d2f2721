package machinetest

import (
	"context"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// SharedDirs are the user's own folders: environments and templates that tests share.
func SharedDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d, err := dirs.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Debian gives the environment that tests start machines from, and holds it until the test ends.
func Debian(t *testing.T) machine.Root {
	t.Helper()
	report := progress.Func(func(e progress.Event) {
		if e.Done == 0 {
			t.Log(e.Phase, e.Subject)
		}
	})
	lease, err := environment.Open(SharedDirs(t)).Use(context.Background(), "debian:12", report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Close() })
	return machine.Root{Digest: lease.Digest, Image: lease.Image}
}
