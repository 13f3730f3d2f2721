package pyro

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// NetworkPolicy says what a machine may reach, and who may reach it.
type NetworkPolicy string

// The policies.
const (
	NetworkOff       = NetworkPolicy(store.NetworkOff)       // nothing: it has no link
	NetworkEgress    = NetworkPolicy(store.NetworkEgress)    // the public Internet, and nothing of the host or of private networks
	NetworkPublished = NetworkPolicy(store.NetworkPublished) // the same, and its services can be reached from the host by the ports that they publish
)

// NetworkPolicies are all there are.
var NetworkPolicies = []NetworkPolicy{NetworkOff, NetworkEgress, NetworkPublished}

// PublishedPort is a TCP port of a workspace that is one of 127.0.0.1 on the host.
type PublishedPort struct {
	GuestPort int `json:"guest_port"`
	HostPort  int `json:"host_port"` // in a request 0: one that is free
}

// NetworkInfo is the network of a machine.
type NetworkInfo struct {
	Address        string          `json:"address"` // of the machine, on a link on which it is alone with its gateway
	Gateway        string          `json:"gateway"` // the way to everywhere, and the name server
	Address6       string          `json:"address6"`
	Gateway6       string          `json:"gateway6"`
	MAC            string          `json:"mac"`
	MTU            int             `json:"mtu"`
	EgressAllow    []string        `json:"egress_allow"`    // empty: all that is allowed by default
	EgressDeny     []string        `json:"egress_deny"`     //
	PublishedPorts []PublishedPort `json:"published_ports"` // of services that run
}

// networkOf tells the network of a machine; nil where it has none.
func networkOf(w workspace.Workspace) *NetworkInfo {
	if !w.Spec.Networked() {
		return nil
	}
	p := network.NewPlan(w.ID)
	return &NetworkInfo{
		Address: p.Address.String(), Gateway: p.Gateway.String(), Address6: p.Address6.String(), Gateway6: p.Gateway6.String(), MAC: p.MAC.String(), MTU: network.MTU,
		EgressAllow: listOf(w.Spec.Egress.Allow), EgressDeny: listOf(w.Spec.Egress.Deny), PublishedPorts: publishedPorts(w.Ports),
	}
}

func publishedPorts(ports []store.Port) []PublishedPort {
	all := []PublishedPort{}
	for _, p := range ports {
		all = append(all, PublishedPort{p.Guest, p.Host})
	}
	return all
}

// listOf is a list that is never null.
func listOf(texts []string) []string { return append([]string{}, texts...) }

// completeNetwork puts in the default and checks policy and rules.
func completeNetwork(policy *NetworkPolicy, allow, deny []string) error {
	if *policy == "" {
		*policy = NetworkOff
	}
	if !slices.Contains(NetworkPolicies, *policy) {
		return invalid("network_policy is %q: it must be %s, %s or %s", *policy, NetworkOff, NetworkEgress, NetworkPublished)
	}
	if *policy == NetworkOff && len(allow)+len(deny) > 0 {
		return invalid("there are rules for a network, and there is none").WithHint("%s", fault.Act("workspace_create", "--network-policy %s", NetworkEgress).Taking("network_policy %q", NetworkEgress))
	}
	_, err := egress.New(allow, deny)
	return err
}

// networkPolicy is that of a machine that has a network or has not, with its rules checked.
func networkPolicy(network bool, allow, deny []string) (NetworkPolicy, error) {
	if !network && len(allow)+len(deny) > 0 {
		return NetworkOff, invalid("there are rules for a network, and there is none").WithHint("%s", fault.Act("vm_run", "--network").Taking("network true"))
	}
	policy := NetworkOff
	if network {
		policy = NetworkEgress
	}
	return policy, completeNetwork(&policy, allow, deny)
}

// networkFor is the network of a machine that is run once; nil where it is to have none.
func networkFor(driver machine.Driver, req *RunInVMRequest) (*supervisor.Network, error) {
	if !req.Network {
		return nil, nil
	}
	if err := workspace.CheckNetwork(driver.Features()); err != nil {
		return nil, err
	}
	policy, err := egress.New(req.EgressAllow, req.EgressDeny)
	return &supervisor.Network{Policy: policy}, err
}

// NetworkRecord is what a machine did on its network, or was refused.
type NetworkRecord struct {
	Time       time.Time `json:"time"`     // of its begin
	Protocol   string    `json:"protocol"` // tcp, udp, icmp, icmpv6, dns for a name that was refused, or ip for a packet that is none of these
	Name       string    `json:"name,omitempty"`
	Address    string    `json:"address,omitempty"`
	Port       int       `json:"port,omitempty"`
	Verdict    string    `json:"verdict"`               // allowed or refused
	Reason     string    `json:"reason,omitempty"`      // why it was refused
	Error      string    `json:"error,omitempty"`       // why what was allowed could not be reached
	Open       bool      `json:"open,omitempty"`        // it goes on
	DurationMS float64   `json:"duration_ms,omitempty"` // of what was allowed
	Sent       int64     `json:"sent_bytes"`            // content, by the machine
	Received   int64     `json:"received_bytes"`        //
	Times      int       `json:"times"`                 // that the same was refused, 1 or more
}

// The verdicts.
const (
	VerdictAllowed = "allowed"
	VerdictRefused = "refused"
)

// NetworkLogRequest says what of a network's log to give.
type NetworkLogRequest struct {
	WorkspaceID string `json:"workspace_id"`
	TailLines   int    `json:"tail_lines,omitempty"` // the last so many records; default DefaultTailLines
	All         bool   `json:"all,omitempty"`        // all that are kept instead
}

// NetworkLog is what a workspace did on its network. It is kept when the workspace is stopped or reset.
type NetworkLog struct {
	WorkspaceID   string          `json:"workspace_id"`
	NetworkPolicy NetworkPolicy   `json:"network_policy"`
	Records       []NetworkRecord `json:"records"`   // in the order of their end; then those that are open
	Truncated     bool            `json:"truncated"` // there are, or were, earlier ones
}

// NetworkLog gives what a workspace did on its network: each connection once it has ended, and those that are open.
func (p *Pyro) NetworkLog(ctx context.Context, req NetworkLogRequest) (*NetworkLog, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("workspace_id", req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("tail_lines", &req.TailLines, DefaultTailLines, 1, 1<<20); err != nil {
		return nil, err
	}
	if req.All {
		req.TailLines = 0
	}
	w, records, open, all, err := p.workspaces.NetworkLog(ctx, req.WorkspaceID, req.TailLines)
	if err != nil {
		return nil, because(ctx, err)
	}
	log := &NetworkLog{WorkspaceID: w.ID, NetworkPolicy: NetworkPolicy(w.Spec.Network), Records: []NetworkRecord{}, Truncated: !all}
	for _, r := range records {
		log.Records = append(log.Records, newNetworkRecord(r, false))
	}
	for _, r := range open {
		log.Records = append(log.Records, newNetworkRecord(r, true))
	}
	return log, nil
}

func newNetworkRecord(r network.Record, open bool) NetworkRecord {
	n := NetworkRecord{
		Time: r.Time.UTC(), Protocol: r.Protocol, Name: r.Name, Port: int(r.Port), Verdict: VerdictAllowed, Reason: r.Refused, Error: r.Error, Open: open,
		DurationMS: ms(r.Took), Sent: r.Sent, Received: r.Received, Times: r.Times,
	}
	if r.Refused != "" {
		n.Verdict = VerdictRefused
	}
	if r.Address != (netip.Addr{}) {
		n.Address = r.Address.String()
	}
	return n
}

// portsOf are the ports of a service that is to be started.
func portsOf(ports []PublishedPort) (all []store.Port) {
	for _, p := range ports {
		all = append(all, store.Port{Guest: p.GuestPort, Host: p.HostPort})
	}
	return all
}
