package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// UpdateWorkspaceRequest describes changes to a workspace. Fields that are not set change nothing.
type UpdateWorkspaceRequest struct {
	WorkspaceID string            `json:"workspace_id"`
	Name        *string           `json:"name,omitempty"`
	ClearName   bool              `json:"clear_name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`       // labels to set; other labels do not change
	ClearLabels []string          `json:"clear_labels,omitempty"` // keys of the labels to remove

	VCPUCount  int `json:"vcpu_count,omitempty"`  // as in RunInVMRequest, without a default
	MemMiB     int `json:"mem_mib,omitempty"`     // as in RunInVMRequest, without a default
	TTLSeconds int `json:"ttl_seconds,omitempty"` // as in CreateWorkspaceRequest, without a default

	NetworkPolicy NetworkPolicy `json:"network_policy,omitempty"`
	ClearEgress   bool          `json:"clear_egress,omitempty"` // remove all egress rules, before EgressAllow and EgressDeny are set
	EgressAllow   []string      `json:"egress_allow,omitempty"` // replaces all rules of this kind; see CreateWorkspaceRequest
	EgressDeny    []string      `json:"egress_deny,omitempty"`  // replaces all rules of this kind
}

func (r UpdateWorkspaceRequest) check() error {
	for _, n := range []struct {
		name            string
		value, low, top int
	}{
		{"vcpu_count", r.VCPUCount, 1, MaxVCPUCount}, {"mem_mib", r.MemMiB, MinMemMiB, hostMemMiB()}, {"ttl_seconds", r.TTLSeconds, 1, MaxSeconds},
	} {
		if err := completeNumber(n.name, &n.value, n.low, n.low, n.top); err != nil {
			return err
		}
	}
	policy := r.NetworkPolicy
	if policy == "" {
		policy = NetworkPublished // the policy of the workspace decides about rules
	}
	return completeNetwork(&policy, r.EgressAllow, r.EgressDeny)
}

// UpdateWorkspace changes the name, the labels and the settings of a workspace. A running workspace
// gets the new time to live and the new network policy immediately. Open connections and published
// ports that the policy refuses are closed. Processors and memory change at the next start. If the
// machine has no network, a new network policy also applies at the next start. A paused workspace
// keeps the old settings until it is stopped and started. Workspace.AppliesAtNextStart names the
// settings that do not apply yet.
func (p *Pyro) UpdateWorkspace(ctx context.Context, req UpdateWorkspaceRequest) (*Workspace, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Update(ctx, req.WorkspaceID, workspace.Update{
		Name: req.Name, ClearName: req.ClearName, Labels: req.Labels, ClearLabels: req.ClearLabels,
		VCPUCount: req.VCPUCount, MemMiB: req.MemMiB, TTLSeconds: req.TTLSeconds,
		Network: string(req.NetworkPolicy), ClearEgress: req.ClearEgress, Allow: req.EgressAllow, Deny: req.EgressDeny,
	})
	return p.workspaceOf(ctx, w, err)
}
