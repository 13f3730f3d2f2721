package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// networkLog keeps what the machine does on its network.
type networkLog struct {
	of *daemon

	mu     sync.Mutex
	file   *transcript.File
	failed bool
}

// network is the one that the machine is to have, nil where it is to have none. What it does is logged from then on.
func (d *daemon) network() (*supervisor.Network, error) {
	spec := d.order.Workspace.Spec
	if !spec.Networked() {
		return nil, nil
	}
	policy, err := egress.New(spec.Egress.Allow, spec.Egress.Deny)
	if err != nil {
		return nil, err
	}
	d.netlog.of = d
	if d.netlog.file, err = transcript.OpenFile(d.folder.NetworkLog(), remote.NetworkLogBytes); err != nil {
		return nil, fault.Wrap(err, "open log of network", d.order.Workspace.ID)
	}
	return &supervisor.Network{Policy: policy, Records: d.netlog.write}, nil
}

// write notes a record. Names are the machine's own words: a secret may be in one.
func (l *networkLog) write(r network.Record) {
	r.Name = l.of.secrets.Text(r.Name)
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
		l.failed = true // a log that can't be written, for want of space, is no reason to end a machine
		slog.Error("write log of network", "workspace", l.of.order.Workspace.ID, "error", err)
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

// publish has the service's ports be ports of the host. Those that were published when there is an error are to be taken back.
func (v *service) publish(ports []store.Port) error {
	if len(ports) == 0 {
		return nil
	}
	id := v.of.order.Workspace.ID
	stack := v.of.machine.Network()
	if stack == nil || v.of.order.Workspace.Spec.Network != store.NetworkPublished {
		return fault.New(fault.Precondition, "publish port", strconv.Itoa(ports[0].Guest), "the network policy of the workspace is %s", v.of.order.Workspace.Spec.Network).
			WithHint("%s makes one that can; this one is %s",
				fault.Act("workspace_create", "pyro workspace create --network-policy %s", store.NetworkPublished).Taking("network_policy %q", store.NetworkPublished), id)
	}
	for _, p := range ports {
		published, err := stack.Publish(p.Host, p.Guest)
		if err != nil {
			return err
		}
		v.ports = append(v.ports, published)
		v.record.Spec.Ports = append(v.record.Spec.Ports, store.Port{Guest: published.Guest, Host: published.Host})
	}
	return nil
}

// unpublish closes the service's ports on the host, and all connections to them.
func (v *service) unpublish() {
	for _, p := range v.ports {
		p.Close()
	}
}

// Connections gives those that are open on the machine's network.
func (s *server) Connections(ctx context.Context, _ *connect.Request[supervisorv1.ConnectionsRequest]) (*connect.Response[supervisorv1.ConnectionsResponse], error) {
	stack := s.daemon.machine.Network()
	if stack == nil {
		return nil, fault.New(fault.Precondition, "list connections", s.daemon.order.Workspace.ID, "it has no network")
	}
	answer := &supervisorv1.ConnectionsResponse{}
	for _, r := range stack.Open() {
		answer.Open = append(answer.Open, &supervisorv1.Connection{
			UnixNanos: r.Time.UnixNano(), Protocol: r.Protocol, Name: s.daemon.secrets.Text(r.Name), Address: r.Address.String(), Port: uint32(r.Port),
		})
	}
	return connect.NewResponse(answer), nil
}
