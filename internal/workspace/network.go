package workspace

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// MTU is the maximum size of IP packets in a machine's network, in bytes.
const MTU = network.MTU

// NetworkRecord is an entry of a network log.
type NetworkRecord = network.Record

// Plan returns the addresses of the machine. A machine without a network does not use them.
func (w *Workspace) Plan() network.Plan { return network.NewPlan(w.ID) }

// CheckEgress returns an error if a rule is malformed or can never match.
func CheckEgress(allow, deny []string) error { return network.CheckRules(allow, deny) }

// CheckNetwork returns an error if a network policy can't be enforced for machines with these
// features.
func CheckNetwork(f machine.Features) error {
	switch {
	case f.Network:
		return nil
	case f.Isolated:
		return fault.Newf(fault.Unsupported, "machines of this isolation can't have a network").WithHint("pyro doctor")
	}
	return fault.Newf(fault.Unsupported, "host_compat can't have a network policy: its programs have the network of the host").WithHint("pyro doctor")
}

// ports returns the published ports of running services.
func (m *Manager) ports(ctx context.Context, w store.Workspace) (all []store.Port) {
	m.eachPort(ctx, w, func(_ string, p store.Port) { all = append(all, p) })
	return all
}

// reportPorts calls PortChanged for the published ports that are not as wanted.
func (m *Manager) reportPorts(ctx context.Context, w store.Workspace) {
	m.eachPort(ctx, w, func(service string, p store.Port) {
		if p.Wanted != 0 && m.PortChanged != nil {
			m.PortChanged(w.ID, service, p)
		}
	})
}

// eachPort calls a function for each published port of the running services.
func (m *Manager) eachPort(ctx context.Context, w store.Workspace, f func(service string, p store.Port)) {
	services, err := m.Store.Services(ctx, w.ID)
	if err != nil {
		return // the workspace can be described without its ports
	}
	for _, s := range services {
		if s.EndedAt.IsZero() {
			for _, p := range s.Spec.Ports {
				f(s.Name, p)
			}
		}
	}
}

// connections returns the open connections, oldest first. It returns none if the workspace does not
// run.
func (m *Manager) connections(ctx context.Context, id string) ([]network.Record, error) {
	c, err := remote.Dial(ctx, m.folder(id))
	var open []network.Record
	if err == nil {
		defer c.Close()
		open, err = c.Connections(ctx)
	}
	if fault.KindOf(err) == fault.Precondition {
		return nil, nil // the machine has ended or is ending
	}
	slices.SortFunc(open, func(a, b network.Record) int { return a.Time.Compare(b.Time) })
	return open, err
}

// NetworkLog returns the last lines of the network log, or all kept records if lines is 0. It also
// returns the open connections. all reports whether records contains everything that was ever
// logged.
func (m *Manager) NetworkLog(ctx context.Context, id string, lines int) (w store.Workspace, records, open []NetworkRecord, all bool, err error) {
	if w, err = m.record(ctx, store.KindWorkspace, id); err != nil {
		return w, nil, nil, false, err
	}
	if w.Spec.Networked() {
		if open, err = m.connections(ctx, id); err != nil {
			return w, nil, nil, false, err
		}
	}
	text, dropped, err := program.ReadLogFile(m.folder(id).NetworkLog())
	if err != nil {
		return w, nil, nil, false, fault.Wrap(err, "read log of network", id)
	}
	all = dropped == 0
	if lines > 0 {
		var whole bool
		text, whole = program.LastLines(text, lines)
		all = all && whole
	}
	return w, remote.ReadNetworkLog(text), open, all, nil
}
