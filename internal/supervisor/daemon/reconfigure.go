package daemon

import (
	"context"
	"time"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Reconfigure applies the settings that the record of the workspace has now.
func (s *server) Reconfigure(ctx context.Context, _ *connect.Request[supervisorv1.ReconfigureRequest]) (*connect.Response[supervisorv1.ReconfigureResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	d := s.daemon
	d.reconfiguring.Lock()
	defer d.reconfiguring.Unlock()
	w, err := d.store.Workspace(ctx, d.config.Workspace.ID)
	if err == nil {
		err = d.reconfigure(w.Spec)
	}
	return connect.NewResponse(&supervisorv1.ReconfigureResponse{}), err
}

// reconfigure applies the time to live and the network policy. The caller holds d.reconfiguring.
func (d *daemon) reconfigure(spec store.Spec) error {
	policy, err := policyOf(spec)
	if err != nil {
		return err
	}
	d.spec.Store(&spec)
	d.activity.setTTL(time.Duration(spec.TTLSeconds) * time.Second)
	if stack := d.machine.Network(); stack != nil {
		stack.SetPolicy(policy)
	}
	if spec.Network != store.NetworkPublished {
		for _, v := range d.services.list() {
			v.unpublishAll()
		}
	}
	return nil
}

// policyOf returns the egress policy of a machine that has a network.
func policyOf(spec store.Spec) (*egress.Policy, error) {
	if !spec.Networked() {
		return egress.Off(), nil
	}
	return egress.NewOpen(spec.Egress.Allow, spec.Egress.Deny, spec.Egress.Open)
}

// shape returns the shape of the machine. A saved machine has the shape that it was started with.
func (d *daemon) shape() store.Shape {
	spec := d.config.Workspace.Spec
	if d.config.Workspace.Disks.Checkpoint == "" {
		return spec.Shape()
	}
	return spec.CurrentShape()
}
