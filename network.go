package pyro

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// NetworkPolicy controls which networks a machine can reach, and whether the host can reach its
// ports.
type NetworkPolicy string

// The policies.
const (
	NetworkOff       = NetworkPolicy(store.NetworkOff)       // no network
	NetworkEgress    = NetworkPolicy(store.NetworkEgress)    // the public Internet, but not the host or private networks
	NetworkPublished = NetworkPolicy(store.NetworkPublished) // like NetworkEgress, and services can also publish ports on the host
)

// NetworkPolicies are all policies.
var NetworkPolicies = []NetworkPolicy{NetworkOff, NetworkEgress, NetworkPublished}

// PublishedPort is a TCP port of a workspace that is published on 127.0.0.1 of the host.
type PublishedPort struct {
	GuestPort int `json:"guest_port"`
	HostPort  int `json:"host_port"` // 0 in a request: any free port

	// RequestedHostPort is the port that the service had on the host until another program took it
	// while the workspace was paused. Each resume and each restart of the service tries it again.
	// It is 0 if HostPort has not changed, and in requests.
	RequestedHostPort int `json:"requested_host_port,omitempty"`
}

// NetworkInfo is the network of a machine.
type NetworkInfo struct {
	Address        string          `json:"address"` // address of the machine; only the gateway is on the same link
	Gateway        string          `json:"gateway"` // router and name server
	Address6       string          `json:"address6"`
	Gateway6       string          `json:"gateway6"`
	MAC            string          `json:"mac"`
	MTU            int             `json:"mtu"`
	EgressAllow    []string        `json:"egress_allow"` // empty: everything that the policy allows
	EgressDeny     []string        `json:"egress_deny"`
	EgressOpen     []string        `json:"egress_open,omitempty"` // allowed in addition, because the host's network settings need it
	PublishedPorts []PublishedPort `json:"published_ports"`       // ports of running services
}

// networkOf describes the network of a machine. It returns nil if the machine has none.
func networkOf(w workspace.Workspace) *NetworkInfo {
	if !w.Spec.Networked() {
		return nil
	}
	p := w.Plan()
	return &NetworkInfo{
		Address: p.Address.String(), Gateway: p.Gateway.String(), Address6: p.Address6.String(), Gateway6: p.Gateway6.String(), MAC: p.MAC.String(), MTU: workspace.MTU,
		EgressAllow: listOf(w.Spec.Egress.Allow), EgressDeny: listOf(w.Spec.Egress.Deny), EgressOpen: w.Spec.Egress.Open, PublishedPorts: publishedPorts(w.Ports),
	}
}

func publishedPorts(ports []store.Port) []PublishedPort {
	all := []PublishedPort{}
	for _, p := range ports {
		all = append(all, PublishedPort{GuestPort: p.Guest, HostPort: p.Host, RequestedHostPort: p.Wanted})
	}
	return all
}

// listOf returns a list that is never null in JSON.
func listOf(texts []string) []string { return append([]string{}, texts...) }

// completeNetwork sets the default, and checks the policy and the rules.
func completeNetwork(policy *NetworkPolicy, allow, deny []string) error {
	if *policy == "" {
		*policy = NetworkOff
	}
	if !slices.Contains(NetworkPolicies, *policy) {
		return invalid("network_policy is %q: it must be %s, %s or %s", *policy, NetworkOff, NetworkEgress, NetworkPublished)
	}
	if *policy == NetworkOff && len(allow)+len(deny) > 0 {
		return invalid("there are network rules, but the network is off").WithHint("%s", fault.Act("workspace_create", "--network-policy %s", NetworkEgress).Taking("network_policy %q", NetworkEgress))
	}
	return workspace.CheckEgress(allow, deny)
}

// vmNetwork returns the network request for a machine with or without a network.
func vmNetwork(network bool, r networkRequest) (networkRequest, error) {
	if !network && !r.host && len(r.allow)+len(r.deny) > 0 {
		return r, invalid("there are network rules, but the network is off").WithHint("%s", fault.Act("vm_run", "--network").Taking("network true"))
	}
	r.policy = NetworkOff
	if network {
		r.policy = NetworkEgress
	}
	return r, nil
}

// NetworkRecord is a connection of a machine, or a refused attempt.
type NetworkRecord struct {
	Time       time.Time `json:"time"`     // start time
	Protocol   string    `json:"protocol"` // tcp, udp, icmp or icmpv6; dns for a refused name; ip for other packets
	Name       string    `json:"name,omitempty"`
	Address    string    `json:"address,omitempty"`
	Port       int       `json:"port,omitempty"`
	Verdict    string    `json:"verdict"`               // allowed or refused.
	Reason     string    `json:"reason,omitempty"`      // why it was refused.
	Error      string    `json:"error,omitempty"`       // why an allowed target could not be reached.
	Open       bool      `json:"open,omitempty"`        // it is still open
	DurationMS float64   `json:"duration_ms,omitempty"` // duration of an allowed connection
	Sent       int64     `json:"sent_bytes"`            // payload bytes that the machine sent
	Received   int64     `json:"received_bytes"`
	Times      int       `json:"times"` // number of identical refused attempts, at least 1
}

// The verdicts.
const (
	VerdictAllowed = "allowed"
	VerdictRefused = "refused"
)

// NetworkLogRequest contains the parameters of [Pyro.NetworkLog].
type NetworkLogRequest struct {
	WorkspaceID string `json:"workspace_id"`
	TailLines   int    `json:"tail_lines,omitempty"` // return the latest records, at most this number; default DefaultTailLines
	All         bool   `json:"all,omitempty"`        // return all stored records instead
}

// NetworkLog is the network activity of a workspace. It survives stops and resets.
type NetworkLog struct {
	WorkspaceID   string          `json:"workspace_id"`
	NetworkPolicy NetworkPolicy   `json:"network_policy"`
	Records       []NetworkRecord `json:"records"`   // ended connections in the order of their ends, then open connections
	Truncated     bool            `json:"truncated"` // earlier records exist, or existed and are no longer stored
}

// NetworkLog returns the network activity of a workspace: ended connections, then open connections.
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
		return nil, causeOf(ctx, err)
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

func newNetworkRecord(r workspace.NetworkRecord, open bool) NetworkRecord {
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

// portsOf returns the ports for a service.
func portsOf(ports []PublishedPort) (all []store.Port) {
	for _, p := range ports {
		all = append(all, store.Port{Guest: p.GuestPort, Host: p.HostPort})
	}
	return all
}
