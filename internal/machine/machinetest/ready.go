package machinetest

import (
	"context"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// ready checks that Ready reports what a start will find, and that Ready makes no files. It checks
// that a start after Invalidate finds files missing, and that running machines survive Invalidate.
func (s suite) ready(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	spec := s.spec(t, usual)
	features := s.driver.Features()
	if features.Isolated { // the test uses a new environment
		spec.Root.Digest = "sha256:" + client.NewIdentity("").MachineID + client.NewIdentity("").MachineID
	}
	look := func() machine.Readiness {
		t.Helper()
		r, err := s.driver.Ready(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		if r.Parts[machine.PartAgent] == "" || features.Isolated && r.Parts[machine.PartEnvironment] != spec.Root.Digest {
			t.Errorf("it depends on %v", r.Parts)
		}
		return r
	}
	for range 2 {
		if r := look(); (r.Missing != "") != features.Prepares || r.Damaged {
			t.Errorf("Prepares is %t; before the first start: %+v", features.Prepares, r)
		}
	}
	g := s.startAs(t, spec)
	if r := look(); r.Missing != "" || r.Damaged {
		t.Errorf("after a start: %+v", r)
	}
	if err := g.agent.Renew(ctx, client.NewIdentity(spec.ID)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.driver.Invalidate(ctx, spec); err != nil {
			t.Error("invalidate:", err)
		}
	}
	if r := look(); (r.Missing != "") != features.Prepares || r.Damaged {
		t.Errorf("Prepares is %t; invalidated: %+v", features.Prepares, r)
	}
	g.answers(t)
}
