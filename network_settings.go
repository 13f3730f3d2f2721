package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/hostnet"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// HostNetworkSetting is a setting that the tools of this host need to reach the network.
type HostNetworkSetting struct {
	Tool       string   `json:"tool"`                 // proxy, certificates, apt, go, npm or pip.
	Name       string   `json:"name"`                 // such as HTTPS_PROXY or registry.
	Value      string   `json:"value"`                // without passwords and tokens.
	Source     string   `json:"source"`               // the variable or file that contains it, or default.
	Egress     []string `json:"egress"`               // the egress rules that its use needs
	Credential string   `json:"credential,omitempty"` // the name for HostNetworkCredentials, if there is a password or token
	Unusable   string   `json:"unusable,omitempty"`   // why machines don't get the setting
}

// HostNetworkSettings lists the network settings of this host that a machine gets if a request sets
// HostNetworkSettings. They are the settings of the user and the environment of this process.
func (p *Pyro) HostNetworkSettings(ctx context.Context) ([]HostNetworkSetting, error) {
	if err := ctx.Err(); err != nil {
		return nil, causeOf(ctx, err)
	}
	all := []HostNetworkSetting{}
	for _, s := range findHostNetwork().All {
		all = append(all, HostNetworkSetting{s.Tool, s.Name, s.Value, s.Source, listOf(s.Rules), s.Credential, s.Unusable})
	}
	return all, nil
}

func findHostNetwork() hostnet.Settings {
	host := hostnet.ThisHost()
	host.Check = func(rule string) error { return workspace.CheckEgress([]string{rule}, nil) }
	return hostnet.Find(host)
}

// machineNetwork is the network of a new machine.
type machineNetwork struct {
	policy      NetworkPolicy
	egress      store.Egress
	host        *store.HostNetwork // nil unless the request asks for the host's settings
	credentials hostnet.Credentials
}

// networkRequest is the part of a request that describes the network.
type networkRequest struct {
	policy      NetworkPolicy
	allow, deny []string
	host        bool     // HostNetworkSettings
	credentials []string // HostNetworkCredentials
}

// check sets the default policy, and checks the policy and the rules. It reads no file.
func (r *networkRequest) check() error {
	if !r.host && len(r.credentials) > 0 {
		return invalid("host_network_credentials needs host_network_settings")
	}
	if r.host && (r.policy == "" || r.policy == NetworkOff) {
		r.policy = NetworkEgress
	}
	return completeNetwork(&r.policy, r.allow, r.deny)
}

// plan returns the network. The host's settings turn the network on. If the request itself does
// not, the machine reaches only the targets that the settings need.
func (r networkRequest) plan() (machineNetwork, error) {
	only := (r.policy == "" || r.policy == NetworkOff) && len(r.allow) == 0
	if err := r.check(); err != nil {
		return machineNetwork{}, err
	}
	n := machineNetwork{policy: r.policy, egress: store.Egress{Allow: r.allow, Deny: r.deny}}
	if !r.host {
		return n, nil
	}
	var err error
	if n.host, n.credentials, err = findHostNetwork().Give(r.credentials); err != nil {
		return n, err
	}
	if only {
		n.egress.Allow = n.host.Rules
	} else {
		n.egress.Open = n.host.Rules
	}
	return n, nil
}
