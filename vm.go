package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// VM is one machine, for one command, that is deleted when its time is over.
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

// CreateVMRequest says what machine to make. Only Environment has to be set.
type CreateVMRequest struct {
	Environment string `json:"environment"`
	VCPUCount   int    `json:"vcpu_count,omitempty"`  // as for RunInVM
	MemMiB      int    `json:"mem_mib,omitempty"`     // as for RunInVM
	TTLSeconds  int    `json:"ttl_seconds,omitempty"` // it is deleted when nothing was done with it for so long; default DefaultTTLSeconds

	Isolation       Isolation `json:"isolation,omitempty"`
	AllowHostCompat bool      `json:"allow_host_compat,omitempty"`

	Network     bool     `json:"network,omitempty"`      // it reaches the public Internet, as with NetworkEgress
	EgressAllow []string `json:"egress_allow,omitempty"` // as for a workspace
	EgressDeny  []string `json:"egress_deny,omitempty"`

	Progress ProgressFunc `json:"-"`
}

// CreateVM makes a machine, which StartVM starts.
func (p *Pyro) CreateVM(ctx context.Context, req CreateVMRequest) (*VM, error) {
	if req.Environment == "" {
		return nil, invalid("environment is missing").WithHint("%s", toListEnvironments)
	}
	if err := completeMachine(&req.VCPUCount, &req.MemMiB, &req.TTLSeconds, &req.Isolation); err != nil {
		return nil, err
	}
	policy, err := networkPolicy(req.Network, req.EgressAllow, req.EgressDeny)
	if err != nil {
		return nil, err
	}
	if err := p.known(ctx, req.Environment); err != nil {
		return nil, err
	}
	w, err := p.workspaces.Create(ctx, workspace.Spec{
		Kind: store.KindVM, Environment: req.Environment, Isolation: machine.Isolation(req.Isolation), AllowHost: req.AllowHostCompat,
		VCPUCount: req.VCPUCount, MemMiB: req.MemMiB, TTLSeconds: req.TTLSeconds, Network: string(policy),
		Egress: store.Egress{Allow: req.EgressAllow, Deny: req.EgressDeny}, Progress: req.Progress.adapt(),
	})
	return vmOf(ctx, w, err)
}

// StartVM starts a machine. One that runs is left as it is.
func (p *Pyro) StartVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Start(ctx, store.KindVM, id, nil)
	return vmOf(ctx, w, err)
}

// ExecVMRequest says what to run in a machine. Only VMID and one of Argv and Command have to be set.
type ExecVMRequest struct {
	VMID           string            `json:"vm_id"`
	Argv           []string          `json:"argv,omitempty"`
	Command        string            `json:"command,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"` // default DefaultTimeoutSeconds
}

// VMExecResult is what became of a command in a machine.
type VMExecResult struct {
	VMID string `json:"vm_id"`
	WorkspaceExecResult
}

// ExecVM runs one command in a machine that runs, and deletes the machine, whatever became of the command. A request that is wrong, or for a machine that does
// not run, deletes nothing.
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

// StopVM stops a machine. It can be started again until its time is over.
func (p *Pyro) StopVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Stop(ctx, store.KindVM, id)
	return vmOf(ctx, w, err)
}

// DeletedVM tells that a machine is gone.
type DeletedVM struct {
	VMID    string `json:"vm_id"`
	Deleted bool   `json:"deleted"`
}

// DeleteVM removes a machine, whatever state it is in.
func (p *Pyro) DeleteVM(ctx context.Context, id string) (*DeletedVM, error) {
	if err := p.workspaces.Delete(ctx, store.KindVM, id); err != nil {
		return nil, because(ctx, err)
	}
	return &DeletedVM{id, true}, nil
}

// StatusVM tells what a machine is now.
func (p *Pyro) StatusVM(ctx context.Context, id string) (*VM, error) {
	w, err := p.workspaces.Get(ctx, store.KindVM, id)
	return vmOf(ctx, w, err)
}

// VMNetworkInfo tells what network a machine has.
type VMNetworkInfo struct {
	VMID           string        `json:"vm_id"`
	NetworkEnabled bool          `json:"network_enabled"`
	NetworkPolicy  NetworkPolicy `json:"network_policy"`
	Network        *NetworkInfo  `json:"network"` // null where it has none
}

// NetworkInfoVM tells what network a machine has.
func (p *Pyro) NetworkInfoVM(ctx context.Context, id string) (*VMNetworkInfo, error) {
	w, err := p.workspaces.Get(ctx, store.KindVM, id)
	if err != nil {
		return nil, because(ctx, err)
	}
	return &VMNetworkInfo{id, w.Spec.Networked(), NetworkPolicy(w.Spec.Network), networkOf(w)}, nil
}

// ReapedVMs are the machines that were deleted since their time was over.
type ReapedVMs struct {
	DeletedVMIDs []string `json:"deleted_vm_ids"`
	Count        int      `json:"count"`
}

// ReapExpired deletes the machines whose time is over. Those that run see to it themselves; this is for those that never ran, or whose supervisor was killed.
func (p *Pyro) ReapExpired(ctx context.Context) (*ReapedVMs, error) {
	reaped, err := p.workspaces.Reap(ctx, time.Now())
	if err != nil {
		return nil, because(ctx, err)
	}
	return &ReapedVMs{reaped, len(reaped)}, nil
}

func vmOf(ctx context.Context, w workspace.Workspace, err error) (*VM, error) {
	if err != nil {
		return nil, because(ctx, err)
	}
	full := newWorkspace(w)
	return &VM{
		full.WorkspaceID, full.State, full.StateReason, full.Environment, full.ExecutionMode, full.Isolation, full.HostCompatReason, full.EmulatedReason,
		full.NetworkPolicy != NetworkOff, full.VCPUCount, full.MemMiB, full.TTLSeconds, full.CreatedAt, full.ExpiresAt,
	}, nil
}
