package machinetest

import (
	"context"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// ready checks that a driver tells what a start will find, that looking makes nothing, and that what is forgotten is made again while machines go on.
func (s suite) ready(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	spec := s.spec(t, usual)
	isolated := s.driver.Features().Isolated
	if isolated { // of an environment that nobody has started from
		spec.Root.Digest = "sha256:" + client.NewIdentity("").MachineID + client.NewIdentity("").MachineID
	}
	look := func() machine.Readiness {
		t.Helper()
		r, err := s.driver.Ready(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		if r.Parts[machine.PartAgent] == "" || isolated && r.Parts[machine.PartEnvironment] != spec.Root.Digest {
			t.Errorf("it depends on %v", r.Parts)
		}
		return r
	}
	for range 2 {
		if r := look(); (r.Missing != "") != isolated || r.Damaged {
			t.Errorf("before the first start: %+v", r)
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
		if err := s.driver.Forget(ctx, spec); err != nil {
			t.Error("forget:", err)
		}
	}
	if r := look(); (r.Missing != "") != isolated || r.Damaged {
		t.Errorf("forgotten: %+v", r)
	}
	g.answers(t)
}
