package workspace

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// CheckNetwork refuses a network to what can't be kept to it.
func CheckNetwork(f machine.Features) error {
	if !f.Network {
		return fault.Newf(fault.Unsupported, "host_compat can't have a network policy: what runs on the host reaches whatever the host does").WithHint("pyro doctor")
	}
	return nil
}

// ports are those of the services that run.
func (m *Manager) ports(ctx context.Context, w store.Workspace) (all []store.Port) {
	services, err := m.Store.Services(ctx, w.ID)
	if err != nil {
		return nil // the workspace itself can be told about all the same
	}
	for _, s := range services {
		if s.EndedAt.IsZero() {
			all = append(all, s.Spec.Ports...)
		}
	}
	return all
}

// connections gives those that are open, the oldest first; none where the workspace does not run.
func (m *Manager) connections(ctx context.Context, id string) ([]network.Record, error) {
	c, err := remote.Dial(ctx, m.folder(id))
	var open []network.Record
	if err == nil {
		defer c.Close()
		open, err = c.Connections(ctx)
	}
	if fault.KindOf(err) == fault.Precondition {
		return nil, nil // it has ended, or meanwhile does
	}
	slices.SortFunc(open, func(a, b network.Record) int { return a.Time.Compare(b.Time) })
	return open, err
}

// NetworkLog gives the last lines of what a workspace did on its network, or with lines 0 all that is kept, and the connections that are open. all: there is, and was,
// no more.
func (m *Manager) NetworkLog(ctx context.Context, id string, lines int) (w store.Workspace, records, open []network.Record, all bool, err error) {
	if w, err = m.record(ctx, store.KindWorkspace, id); err != nil {
		return w, nil, nil, false, err
	}
	if w.Spec.Networked() {
		if open, err = m.connections(ctx, id); err != nil {
			return w, nil, nil, false, err
		}
	}
	text, dropped, err := transcript.ReadFile(m.folder(id).NetworkLog())
	if err != nil {
		return w, nil, nil, false, fault.Wrap(err, "read log of network", id)
	}
	all = dropped == 0
	if lines > 0 {
		var whole bool
		text, whole = transcript.LastLines(text, lines)
		all = all && whole
	}
	return w, remote.ReadNetworkLog(text), open, all, nil
}
