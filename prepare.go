package pyro

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/upkeep"
)

// DefaultEnvironment is the environment that PrepareEnvironment uses if a request names none.
const DefaultEnvironment = "debian:12"

// PreparationStatus is the state of the files that the next start of a machine needs.
type PreparationStatus = upkeep.Status

// The statuses.
const (
	Warm  = upkeep.Warm  // all files exist: the start is fast
	Cold  = upkeep.Cold  // some files are missing: the start creates them
	Stale = upkeep.Stale // some files are outdated or damaged: the start creates them again
)

// Preparation describes the next start of a machine of the default size from an environment.
type Preparation struct {
	Environment   string            `json:"environment"`
	Digest        string            `json:"digest"`    // empty if the environment is not installed
	Isolation     Isolation         `json:"isolation"` // the expected level, without trying to start a machine; empty if there is none
	Status        PreparationStatus `json:"status"`
	Reason        string            `json:"reason,omitempty"` // why Status is not Warm
	NetworkStatus PreparationStatus `json:"network_status"`   // the status for a machine with a network
}

// PrepareEnvironmentRequest contains the parameters of [Pyro.PrepareEnvironment]. The zero value
// prepares DefaultEnvironment.
type PrepareEnvironmentRequest struct {
	Environment string    `json:"environment,omitempty"` // default DefaultEnvironment.
	Network     bool      `json:"network,omitempty"`     // prepare machines with a network, which have their own template under kvm and tcg.
	Force       bool      `json:"force,omitempty"`       // create the files again even if they exist.
	Isolation   Isolation `json:"isolation,omitempty"`   // as in RunInVMRequest

	Progress ProgressFunc `json:"-"`
}

// PrepareResult is the result of PrepareEnvironment.
type PrepareResult struct {
	Environment    string            `json:"environment"`
	Digest         string            `json:"digest"`
	Isolation      Isolation         `json:"isolation"`
	EmulatedReason string            `json:"emulated_reason,omitempty"` // why IsolationAuto chose an emulated processor, if it did
	Network        bool              `json:"network"`
	Status         PreparationStatus `json:"status"` // always Warm
	Made           bool              `json:"made"`   // some files were created; if false, no machine was started
	Before         PreparationStatus `json:"status_before"`
	Reason         string            `json:"reason,omitempty"` // why Before is not Warm
	Steps          []Phase           `json:"steps"`            // in order
	TotalMS        float64           `json:"total_ms"`
}

// PrepareEnvironment does the work that otherwise delays the first start of a machine of the
// default size. It pulls the environment, and creates the guest kernel and the template or image
// for this host's isolation level. To do this, it creates a workspace, runs a command in it, resets
// it and deletes it.
//
// If all files exist, PrepareEnvironment starts no machine. With Force, it creates all files again,
// except an undamaged environment and kernel. Running machines are not affected. If
// PrepareEnvironment fails or is canceled, it deletes the workspace.
func (p *Pyro) PrepareEnvironment(ctx context.Context, req PrepareEnvironmentRequest) (*PrepareResult, error) {
	began := time.Now()
	if req.Environment == "" {
		req.Environment = DefaultEnvironment
	}
	result, err := p.prepare(ctx, req)
	if err != nil {
		return nil, fault.Wrap(causeOf(ctx, err), "prepare environment", req.Environment)
	}
	result.TotalMS = ms(time.Since(began))
	return result, nil
}

func (p *Pyro) prepare(ctx context.Context, req PrepareEnvironmentRequest) (*PrepareResult, error) {
	if err := completeIsolation(&req.Isolation); err != nil {
		return nil, err
	}
	if err := p.known(ctx, req.Environment); err != nil {
		return nil, err
	}
	wanted := preparationOf(req.Environment, req.Isolation, req.Progress)
	wanted.Network, wanted.Force = req.Network, req.Force
	r, err := upkeep.Prepare(ctx, p.workspaces, wanted)
	if err != nil {
		return nil, err
	}
	return &PrepareResult{
		Environment: r.After.Environment, Digest: r.After.Digest, Isolation: Isolation(r.After.Isolation), EmulatedReason: r.EmulatedReason,
		Network: req.Network, Status: r.After.Status, Made: r.Made, Before: r.Before.Status, Reason: r.Before.Reason, Steps: phasesOf(r.Steps),
	}, nil
}

// preparationOf describes a machine of the default size.
func preparationOf(environment string, isolation Isolation, report ProgressFunc) upkeep.Preparation {
	p := upkeep.Preparation{TTL: DefaultTTLSeconds * time.Second, Progress: report.adapt()}
	p.Environment, p.Isolation, p.VCPUs, p.MemMiB = environment, machine.Isolation(isolation), DefaultVCPUCount, DefaultMemMiB
	return p
}
