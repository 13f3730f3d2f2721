package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// VM is a machine for one command. It is deleted when its time to live ends.
type VM struct {
	VMID             string         `json:"vm_id"`
	State            WorkspaceState `json:"state"`
	StateReason      string         `json:"state_reason,omitempty"`
	Environment      string         `json:"environment"`
	ExecutionMode    ExecutionMode  `json:"execution_mode"`
	Isolation        Isolation      `json:"isolation"`
	HostCompatReason string         `json:"host_compat_reason,omitempty"`
	EmulatedReason   string         `json:"emulated_reason,omitempty"`
	NetworkEnabled   bool           `json:"network_enabled"`
	VCPUCount        int            `json:"vcpu_count"`
	MemMiB           int            `json:"mem_mib"`
	TTLSeconds       int            `json:"ttl_seconds"`
	CreatedAt        time.Time      `json:"created_at"`
	ExpiresAt        *time.Time     `json:"expires_at"`
}

// CreateVMRequest describes a new machine. Only Environment is required.
type CreateVMRequest struct {
	Environment string `json:"environment"`
	VCPUCount   int    `json:"vcpu_count,omitempty"`  // as in RunInVMRequest.
	MemMiB      int    `json:"mem_mib,omitempty"`     // as in RunInVMRequest.
	TTLSeconds  int    `json:"ttl_seconds,omitempty"` // time without use after which it is deleted; default DefaultTTLSeconds

	Isolation       Isolation `json:"isolation,omitempty"`
	AllowHostCompat bool      `json:"allow_host_compat,omitempty"`

	Network     bool     `json:"network,omitempty"`      // allow the public Internet, as NetworkEgress does
	EgressAllow []string `json:"egress_allow,omitempty"` // as in CreateWorkspaceRequest
	EgressDeny  []string `json:"egress_deny,omitempty"`

	HostNetworkSettings    bool     `json:"host_network_settings,omitempty"`    // as in CreateWorkspaceRequest
	HostNetworkCredentials []string `json:"host_network_credentials,omitempty"` // as in CreateWorkspaceRequest

	Progress ProgressFunc `json:"-"`
}

// CreateVM creates a machine. StartVM starts it.
func (p *Pyro) CreateVM(ctx context.Context, req CreateVMRequest) (*VM, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	if err := completeMachine(&req.VCPUCount, &req.MemMiB, &req.TTLSeconds, &req.Isolation); err != nil {
		return nil, err
	}
	request, err := vmNetwork(req.Network, networkRequest{
		allow: req.EgressAllow, deny: req.EgressDeny, host: req.HostNetworkSettings, credentials: req.HostNetworkCredentials,
	})
	if err != nil {
		return nil, err
	}
	network, err := request.plan()
	if err != nil {
		return nil, err
	}
	if err := p.known(ctx, req.Environment); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Create(ctx, workspace.Spec{
		Kind: store.KindVM, Environment: req.Environment, Isolation: machine.Isolation(req.Isolation), AllowHost: req.AllowHostCompat,
		VCPUCount: req.VCPUCount, MemMiB: req.MemMiB, TTLSeconds: req.TTLSeconds, Network: string(network.policy),
		Egress: network.egress, HostNetwork: network.host, Credentials: network.credentials, Progress: req.Progress.adapt(),
	})
	return p.vmOf(ctx, w, err)
}

// StartVM starts a machine. It does nothing if the machine runs.
func (p *Pyro) StartVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Start(ctx, store.KindVM, id, nil)
	return p.vmOf(ctx, w, err)
}

// ExecVMRequest describes a command for a machine. VMID is required, and either Argv or Command.
type ExecVMRequest struct {
	VMID           string            `json:"vm_id"`
	Argv           []string          `json:"argv,omitempty"`
	Command        string            `json:"command,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"` // default DefaultTimeoutSeconds
}

// VMExecResult is the outcome of a command in a machine.
type VMExecResult struct {
	VMID string `json:"vm_id"`
	WorkspaceExecResult
}

// ExecVM runs one command in a running machine and then deletes the machine, even if the command
// fails. If the request is invalid or the machine does not run, ExecVM deletes nothing.
func (p *Pyro) ExecVM(ctx context.Context, req ExecVMRequest) (*VMExecResult, error) {
	if err := required("vm_id", req.VMID); err != nil {
		return nil, err
	}
	r, err := p.exec(ctx, store.KindVM, ExecWorkspaceRequest{
		WorkspaceID: req.VMID, Argv: req.Argv, Command: req.Command, Env: req.Env, TimeoutSeconds: req.TimeoutSeconds,
	})
	switch KindOf(err) {
	case Invalid, NotFound, Precondition:
		return nil, err
	}
	deleted := p.workspaces.Delete(context.WithoutCancel(ctx), store.KindVM, req.VMID)
	if err == nil {
		err = deleted
	}
	if err != nil {
		return nil, err
	}
	r.WorkspaceID = ""
	return &VMExecResult{req.VMID, *r}, nil
}

// StopVM stops a machine. StartVM can start it again until its time to live ends.
func (p *Pyro) StopVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Stop(ctx, store.KindVM, id)
	return p.vmOf(ctx, w, err)
}

// DeletedVM names a machine that was deleted.
type DeletedVM struct {
	VMID    string `json:"vm_id"`
	Deleted bool   `json:"deleted"`
}

// DeleteVM deletes a machine in any state.
func (p *Pyro) DeleteVM(ctx context.Context, id string) (*DeletedVM, error) {
	if err := p.workspaces.Delete(ctx, store.KindVM, id); err != nil {
		return nil, causeOf(ctx, err)
	}
	return &DeletedVM{id, true}, nil
}

// StatusVM describes a machine.
func (p *Pyro) StatusVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Get(ctx, store.KindVM, id)
	return p.vmOf(ctx, w, err)
}

// VMNetworkInfo describes the network of a machine.
type VMNetworkInfo struct {
	VMID           string        `json:"vm_id"`
	NetworkEnabled bool          `json:"network_enabled"`
	NetworkPolicy  NetworkPolicy `json:"network_policy"`
	Network        *NetworkInfo  `json:"network"` // nil if it has none
}

// NetworkInfoVM describes the network of a machine.
func (p *Pyro) NetworkInfoVM(ctx context.Context, id string) (*VMNetworkInfo, error) {
	w, err := p.workspaces.Get(ctx, store.KindVM, id)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &VMNetworkInfo{id, w.Spec.Networked(), NetworkPolicy(w.Spec.Network), networkOf(w)}, nil
}

// ReapedVMs lists the expired machines that were deleted.
type ReapedVMs struct {
	DeletedVMIDs []string `json:"deleted_vm_ids"`
	Count        int      `json:"count"`
}

// ReapExpired deletes expired machines. Running machines do not need this, because their
// supervisors delete them when they expire. ReapExpired is for machines that were never started, or
// whose supervisor was killed.
func (p *Pyro) ReapExpired(ctx context.Context) (*ReapedVMs, error) {
	reaped, err := p.workspaces.Reap(ctx, time.Now())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &ReapedVMs{reaped, len(reaped)}, nil
}

func (p *Pyro) vmOf(ctx context.Context, w workspace.Workspace, err error) (*VM, error) {
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	full := p.newWorkspace(w)
	return &VM{
		full.WorkspaceID, full.State, full.StateReason, full.Environment, full.ExecutionMode, full.Isolation, full.HostCompatReason, full.EmulatedReason,
		full.NetworkPolicy != NetworkOff, full.VCPUCount, full.MemMiB, full.TTLSeconds, full.CreatedAt, full.ExpiresAt,
	}, nil
}
