package pyro_test

import (
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/test/sdktest"
)

// TestStandardForms runs the checks of package sdktest on the host. Package test runs them on real
// machines.
func TestStandardForms(t *testing.T) {
	p, err := pyro.New(pyro.Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ws, err := p.CreateWorkspace(t.Context(), pyro.CreateWorkspaceRequest{Environment: "debian:12", AllowHostCompat: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Delete(t.Context())
	sdktest.Run(t, ws)
}
