package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// networkLog records the machine's network activity.
type networkLog struct {
	of *daemon

	mu     sync.Mutex
	file   *program.LogFile
	failed bool
}

// network returns the configuration of the machine's network, or nil if the machine has none. It
// opens the log of network activity.
func (d *daemon) network() (*supervisor.Network, error) {
	if !d.shape().Networked {
		return nil, nil
	}
	policy, err := policyOf(d.config.Workspace.Spec)
	if err != nil {
		return nil, err
	}
	d.netlog.of = d
	if d.netlog.file, err = program.OpenLogFile(d.folder.NetworkLog(), remote.NetworkLogBytes); err != nil {
		return nil, fault.Wrap(err, "open log of network", d.config.Workspace.ID)
	}
	return &supervisor.Network{Policy: policy, Records: d.netlog.write}, nil
}

// write adds a record to the log. The machine chooses names, so a name can contain a secret.
func (l *networkLog) write(r network.Record) {
	r.Name = l.of.secrets.names.Text(r.Name)
	line, err := json.Marshal(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil && !l.failed {
		l.failed = true // log the error only once; a full disk must not end the machine
		slog.Error("write log of network", "workspace", l.of.config.Workspace.ID, "error", err)
	}
}

func (l *networkLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// publish publishes more ports of the service on the host, either all of them or none.
func (v *service) publish(ports []store.Port) error {
	if len(ports) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errNotRunning
	}
	for _, p := range ports {
		if slices.ContainsFunc(v.ports, func(other *network.Port) bool { return other.Guest == p.Guest }) {
			return fault.Newf(fault.Exists, "port %d is already published", p.Guest)
		}
	}
	if err := remote.CheckPorts(slices.Concat(v.record.Spec.Ports, ports)); err != nil {
		return err
	}
	id := v.daemon.config.Workspace.ID
	stack := v.daemon.machine.Network()
	if policy := v.daemon.spec.Load().Network; stack == nil || policy != store.NetworkPublished {
		return fault.Wrap(errUnpublishable(id, policy, stack != nil), "publish port", strconv.Itoa(ports[0].Guest))
	}
	var opened []*network.Port
	for _, p := range ports {
		published, err := stack.Publish(p.Host, p.Guest)
		if err != nil {
			closePorts(opened)
			return err
		}
		published.Wanted = p.Wanted
		opened = append(opened, published)
	}
	v.setPorts(slices.Concat(v.ports, opened))
	return nil
}

// errUnpublishable returns the error for a machine that can't publish ports. Its hint changes the
// policy, and starts a machine that has a network.
func errUnpublishable(id string, policy string, networked bool) error {
	update := fault.Act("workspace_update", "pyro workspace update %s --network-policy %s", id, store.NetworkPublished).Taking("network_policy %q", store.NetworkPublished)
	stop, start := fault.Act("workspace_stop", "pyro workspace stop %s", id), fault.Act("workspace_start", "pyro workspace start %s", id)
	switch err := fault.Newf(fault.Precondition, "the network policy of the workspace is %s", policy); {
	case policy == store.NetworkPublished:
		return fault.Newf(fault.Precondition, "the machine was started without a network").WithHint("%s && %s", stop, start)
	case networked:
		return err.WithHint("%s", update)
	default:
		return err.WithHint("%s && %s && %s", update, stop, start)
	}
}

// setPorts sets the published ports. The caller holds v.mu.
func (v *service) setPorts(ports []*network.Port) {
	v.ports, v.record.Spec.Ports = ports, nil
	for _, p := range ports {
		v.record.Spec.Ports = append(v.record.Spec.Ports, store.Port{Guest: p.Guest, Host: p.Host, Wanted: p.Wanted})
	}
}

// reclaim replaces ports of the host by the ports that the service had before a pause, if these are
// free again. The caller holds v.mu, and must close the replaced ports.
func (v *service) reclaim() (replaced []*network.Port) {
	stack := v.daemon.machine.Network()
	ports := slices.Clone(v.ports)
	for i, p := range ports {
		if p.Wanted == 0 || v.closed {
			continue
		}
		if again, err := stack.Publish(p.Wanted, p.Guest); err == nil {
			replaced, ports[i] = append(replaced, p), again
		}
	}
	v.setPorts(ports)
	return replaced
}

// unpublish closes the service's ports on the host, and all connections to them.
func (v *service) unpublish() {
	v.mu.Lock()
	v.closed = true
	ports := v.ports
	v.mu.Unlock()
	closePorts(ports)
}

// unpublishSome closes the ports of the host that lead to some ports of the machine.
func (v *service) unpublishSome(guests []uint32) error {
	ports, err := v.removePorts(guests)
	closePorts(ports)
	return err
}

// unpublishAll closes all published ports of the service, and records that. It first waits until
// the service has its record.
func (v *service) unpublishAll() {
	select {
	case <-v.opened:
	case <-v.done:
		return
	}
	v.mu.Lock()
	ports := v.ports
	if len(ports) > 0 && !v.closed {
		v.setPorts(nil)
		v.save()
	}
	v.mu.Unlock()
	closePorts(ports)
}

// removePorts removes ports from the published ports. The caller must close them.
func (v *service) removePorts(guests []uint32) (removed []*network.Port, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errNotRunning
	}
	kept := slices.Clone(v.ports)
	for _, guest := range guests {
		i := slices.IndexFunc(kept, func(p *network.Port) bool { return p.Guest == int(guest) })
		if i < 0 {
			return nil, fault.Newf(fault.NotFound, "port %d is not published", guest).
				WithHint("%s", fault.Act("service_status", "pyro workspace service status %s %s", v.daemon.config.Workspace.ID, v.record.Name).Taking("service_name %q", v.record.Name))
		}
		removed, kept = append(removed, kept[i]), slices.Delete(kept, i, i+1)
	}
	v.setPorts(kept)
	return removed, nil
}

func closePorts(ports []*network.Port) {
	for _, p := range ports {
		p.Close()
	}
}

var errNotRunning = fault.Newf(fault.Precondition, "it is not running")

// Connections returns the open connections of the machine's network.
func (s *server) Connections(ctx context.Context, _ *connect.Request[supervisorv1.ConnectionsRequest]) (*connect.Response[supervisorv1.ConnectionsResponse], error) {
	stack := s.daemon.machine.Network()
	if stack == nil {
		return nil, fault.New(fault.Precondition, "list connections", s.daemon.config.Workspace.ID, "it has no network")
	}
	answer := &supervisorv1.ConnectionsResponse{}
	for _, r := range stack.Open() {
		answer.Open = append(answer.Open, &supervisorv1.Connection{
			UnixNanos: r.Time.UnixNano(), Protocol: r.Protocol, Name: s.daemon.secrets.names.Text(r.Name), Address: r.Address.String(), Port: uint32(r.Port),
		})
	}
	return connect.NewResponse(answer), nil
}
