package pyro

import (
	"context"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/preparation"
)

// DefaultEnvironment is the one that PrepareEnvironment prepares where a request names none.
const DefaultEnvironment = "debian:12"

// PreparationStatus says what the next start of a machine will find.
type PreparationStatus = preparation.Status

// The statuses.
const (
	Warm  = preparation.Warm  // all that it starts from: it is fast
	Cold  = preparation.Cold  // not all: it makes what is missing
	Stale = preparation.Stale // something that was made from an image, kernel, agent or setting that has changed since, or that is damaged: it makes that again
)

// Preparation is what the next start of a machine of the default size from an environment will find.
type Preparation struct {
	Environment   string            `json:"environment"`
	Digest        string            `json:"digest"`    // of what is installed; empty where nothing is
	Isolation     Isolation         `json:"isolation"` // that it would have, as far as is known without trying; empty where none can be had
	Status        PreparationStatus `json:"status"`
	Reason        string            `json:"reason,omitempty"` // why it is not warm
	NetworkStatus PreparationStatus `json:"network_status"`   // of a machine with a network
}

// preparation tells what the next start will find, of a machine without a network and of one with.
func (p *Pyro) preparation(ctx context.Context, environment string, wanted Isolation, report ProgressFunc) (*Preparation, error) {
	plain, err := p.look(ctx, environment, wanted, false, report)
	if err != nil {
		return nil, err
	}
	networked, err := p.look(ctx, environment, wanted, true, report)
	if err != nil {
		return nil, err
	}
	return &Preparation{plain.Environment, plain.Digest, Isolation(plain.Isolation), plain.Status, plain.Reason, networked.Status}, nil
}

// PrepareEnvironmentRequest says what to prepare. Nothing has to be set.
type PrepareEnvironmentRequest struct {
	Environment string    `json:"environment,omitempty"` // default DefaultEnvironment
	Network     bool      `json:"network,omitempty"`     // for machines with a network: under kvm and tcg they start from another template
	Force       bool      `json:"force,omitempty"`       // make it again, though it is there
	Isolation   Isolation `json:"isolation,omitempty"`   // as for RunInVM

	Progress ProgressFunc `json:"-"`
}

// PrepareResult tells what was prepared.
type PrepareResult struct {
	Environment    string            `json:"environment"`
	Digest         string            `json:"digest"`
	Isolation      Isolation         `json:"isolation"`
	EmulatedReason string            `json:"emulated_reason,omitempty"` // why it could be no more than an emulated processor, where auto came down to one
	Network        bool              `json:"network"`
	Status         PreparationStatus `json:"status"` // Warm
	Made           bool              `json:"made"`   // there was something to make; else nothing was booted
	Before         PreparationStatus `json:"status_before"`
	Reason         string            `json:"reason,omitempty"` // why it was not warm before
	Steps          []Phase           `json:"steps"`            // in their order
	TotalMS        float64           `json:"total_ms"`
}

// PrepareEnvironment makes ready all that the first start of a machine of the default size would: it pulls the environment, makes the guest kernel and the template
// or image for the isolation that this host gives, and proves them by a workspace that it creates, uses, resets and deletes. Where all of that is there already
// nothing is booted. With Force it is made again; what was fetched, the environment and the guest kernel, is not, unless it is damaged. Machines that run go on. When
// it fails or is cancelled no workspace is left.
func (p *Pyro) PrepareEnvironment(ctx context.Context, req PrepareEnvironmentRequest) (*PrepareResult, error) {
	r := preparing{pyro: p, req: req, began: time.Now()}
	if err := r.do(ctx); err != nil {
		return nil, fault.Wrap(because(ctx, err), "prepare environment", r.req.Environment)
	}
	r.result.TotalMS = ms(time.Since(r.began))
	return &r.result, nil
}

// preparing is one call of PrepareEnvironment.
type preparing struct {
	pyro   *Pyro
	req    PrepareEnvironmentRequest
	began  time.Time
	result PrepareResult
}

func (r *preparing) do(ctx context.Context) error {
	if r.req.Environment == "" {
		r.req.Environment = DefaultEnvironment
	}
	if err := completeIsolation(&r.req.Isolation); err != nil {
		return err
	}
	if err := r.pyro.known(ctx, r.req.Environment); err != nil {
		return err
	}
	before, err := r.look(ctx, r.req.Isolation)
	if err != nil {
		return err
	}
	r.result.Before, r.result.Reason, r.result.Network = before.Status, before.Reason, r.req.Network
	if before.Status == Warm && !r.req.Force {
		return r.warm(before)
	}
	r.result.Made = true
	return r.make(ctx)
}

// make makes what is missing, or with Force all, by starting a machine.
func (r *preparing) make(ctx context.Context) error {
	if r.req.Force {
		err := r.step("forget", func() error {
			cfg, err := r.pyro.preparations(r.req.Progress)
			if err != nil {
				return err
			}
			return preparation.Forget(ctx, cfg, machineOf(r.req.Environment, r.req.Isolation, r.req.Network))
		})
		if err != nil {
			return err
		}
	}
	err := r.step("environment", func() error {
		lease, err := r.pyro.store.Use(ctx, r.req.Environment, r.req.Progress.adapt())
		if err != nil {
			return err
		}
		return lease.Close()
	})
	if err != nil {
		return err
	}
	given, err := r.prove(ctx)
	if err != nil {
		return err
	}
	after, err := r.look(ctx, given)
	if err != nil {
		return err
	}
	if after.Status != Warm {
		return fault.Newf(Unavailable, "it was prepared, and something has changed meanwhile: %s", after.Reason).WithHint("pyro prepare %s", r.req.Environment)
	}
	return r.warm(after)
}

// warm notes that it is.
func (r *preparing) warm(s preparation.State) error {
	r.result.Environment, r.result.Digest, r.result.Isolation, r.result.Status = s.Environment, s.Digest, Isolation(s.Isolation), s.Status
	if r.result.Steps == nil {
		r.result.Steps = []Phase{}
	}
	return preparation.Remember(r.pyro.dirs, s)
}

// endOfProof bounds the deletion of the workspace when all else was given up.
const endOfProof = 30 * time.Second

// prove has a workspace go through what workspaces go through, and tells the isolation that it had. It is deleted in any case.
func (r *preparing) prove(ctx context.Context) (given Isolation, err error) {
	policy := NetworkOff
	if r.req.Network {
		policy = NetworkEgress
	}
	var w *Workspace
	err = r.step("create", func() error {
		w, err = r.pyro.CreateWorkspace(ctx, CreateWorkspaceRequest{
			Environment: r.req.Environment, Isolation: r.req.Isolation, NetworkPolicy: policy, Name: "pyro-prepare", Progress: r.req.Progress,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	r.result.EmulatedReason = w.EmulatedReason
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endOfProof)
		defer cancel()
		deleted := r.step("delete", func() error {
			_, err := r.pyro.DeleteWorkspace(ctx, w.WorkspaceID)
			return err
		})
		if err == nil {
			err = deleted
		}
	}()
	if err := r.step("exec", func() error { return r.exec(ctx, w.WorkspaceID) }); err != nil {
		return "", err
	}
	return w.Isolation, r.step("reset", func() error {
		_, err := r.pyro.ResetWorkspace(ctx, ResetWorkspaceRequest{WorkspaceID: w.WorkspaceID, Progress: r.req.Progress})
		return err
	})
}

// exec has the machine tell what links it has. An image without any programs has proved that it starts.
func (r *preparing) exec(ctx context.Context, id string) error {
	result, err := r.pyro.ExecWorkspace(ctx, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"cat", "/proc/net/dev"}})
	switch {
	case err != nil:
		return err
	case result.NotRun != "":
		return nil
	case result.ExitCode != 0:
		return fault.Newf(Unavailable, "a command in a machine of it ended with exit code %d: %s", result.ExitCode, strings.TrimSpace(result.Stderr))
	case strings.Contains(result.Stdout, "eth0:") != r.req.Network:
		return fault.Newf(Internal, "a machine of it was to have a network: %t, and has the links %s", r.req.Network, result.Stdout)
	}
	return nil
}

// step does something, and notes how long it took.
func (r *preparing) step(name string, do func() error) error {
	began := time.Now()
	err := do()
	r.result.Steps = append(r.result.Steps, Phase{name, ms(time.Since(began))})
	return err
}

func (r *preparing) look(ctx context.Context, wanted Isolation) (preparation.State, error) {
	return r.pyro.look(ctx, r.req.Environment, wanted, r.req.Network, r.req.Progress)
}

// look tells what the next start of a machine will find.
func (p *Pyro) look(ctx context.Context, environment string, wanted Isolation, network bool, report ProgressFunc) (preparation.State, error) {
	if err := completeIsolation(&wanted); err != nil {
		return preparation.State{}, err
	}
	cfg, err := p.preparations(report)
	if err != nil {
		return preparation.State{}, err
	}
	return preparation.Look(ctx, cfg, machineOf(environment, wanted, network))
}

func (p *Pyro) preparations(report ProgressFunc) (preparation.Config, error) {
	drivers, err := p.drivers()
	if err != nil {
		return preparation.Config{}, err
	}
	return preparation.Config{Dirs: p.dirs, Store: p.store, Drivers: drivers.Guests, Progress: report.adapt()}, nil
}

// machineOf is a machine of the default size.
func machineOf(environment string, wanted Isolation, network bool) preparation.Machine {
	return preparation.Machine{
		Environment: environment, Isolation: machine.Isolation(wanted), Network: network, VCPUs: DefaultVCPUCount, MemMiB: DefaultMemMiB,
	}
}
