package machinetest

import (
	"context"
	"testing"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// SharedDirs returns the user's real folders, so that all tests share environments and templates.
func SharedDirs(t *testing.T) dirs.Dirs {
	t.Helper()
	d, err := dirs.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Debian returns an environment for tests. It locks the environment until the test ends.
func Debian(t *testing.T) machine.Root {
	t.Helper()
	report := progress.Func(func(e progress.Event) {
		if e.Done == 0 {
			t.Log(e.Phase, e.Subject)
		}
	})
	ref, err := environment.Open(SharedDirs(t)).Use(context.Background(), "debian:12", report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ref.Close() })
	return machine.Root{Digest: ref.Digest, Image: ref.Image}
}
