// Package oneshot runs a command in a machine that exists only for this command.
package oneshot

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Request describes a machine and its command. VCPUs, MemMiB, both time limits and Isolation are
// required.
type Request struct {
	Environment string            // a name from the catalogue, or an OCI reference.
	Isolation   machine.Isolation // a level, or machine.Auto.
	AllowHost   bool              // if no machine can be started, run on the host.
	VCPUs       int
	MemMiB      int
	TTL         time.Duration // time limit of the machine

	Network bool // allow the public Internet
	Egress  store.Egress

	HostNetwork *store.HostNetwork // the network settings of the host that the machine gets; can be nil

	// Command must have a time limit. If it has no arguments, it is the environment's own command.
	// If it names no user or working directory, these are the environment's. The environment's
	// variables are added before its own variables.
	Command program.Command
	Attach  program.Attach

	Starting func(Start)   // called once, just before the command starts
	Progress progress.Func // receives reports about preparations; can be nil
}

// Start describes a machine that was started.
type Start struct {
	Isolation machine.Isolation
	OnHost    bool            // there is no machine: the command runs on the host.
	Fallback  error           // why machine.Auto chose emulation or the host; nil if it did not.
	Unlimited error           // why the machine's processors and memory are not limited; nil if they are.
	Phases    []machine.Phase // the steps of the start, in order
}

// Result is the outcome of a command.
type Result struct {
	program.Exit
	Expired bool // the machine reached its time limit; TimedOut is also set

	RefusedCount int               // number of targets that the network policy refused
	Refused      []network.Refusal // the first of them
}

// Run starts a machine, runs a command in it and removes the machine. A command that fails is a
// result, not an error. If no machine can be started, or the machine fails, the error has the kind
// Unavailable. When ctx ends, Run removes the machine and returns an error, which does not say why
// ctx ended.
func Run(ctx context.Context, m *workspace.Manager, req Request) (Result, error) {
	r := run{Request: req, manager: m}
	driver, err := r.choose(ctx)
	if err != nil {
		return Result{}, err
	}
	cfg := supervisor.Config{
		Dirs: m.Dirs, Driver: driver, VCPUs: req.VCPUs, MemMiB: req.MemMiB, TTL: req.TTL, Progress: withSubject(req.Environment, req.Progress),
		HostNetwork: req.HostNetwork,
	}
	if cfg.Network, err = r.network(driver); err != nil {
		return Result{}, err
	}
	if err := workspace.CheckUser(driver.Isolation(), req.Command.User); err != nil {
		return Result{}, err
	}
	if !r.start.OnHost {
		image, err := r.open(ctx)
		if err != nil {
			return Result{}, err
		}
		defer image.Close()
		r.environment = image.Environment
		cfg.Root = machine.Root{Digest: image.Digest, Image: image.Image}
	}
	if len(r.Command.Argv) == 0 {
		if r.Command.Argv, err = r.environment.Command(); err != nil {
			return Result{}, err
		}
	}
	started, err := supervisor.Start(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	defer started.Close()
	r.start.Phases = append(r.start.Phases, started.Phases()...)
	if !r.start.OnHost {
		r.start.Unlimited = started.Limits()
	}
	swept := sweep(m)
	defer func() { <-swept }()
	r.Starting(r.start)
	return r.exec(ctx, started)
}

// run is one call of Run.
type run struct {
	Request
	manager     *workspace.Manager
	environment environment.Environment // zero on the host
	start       Start
}

// choose picks the driver and records the choice in r.start.
func (r *run) choose(ctx context.Context) (machine.Driver, error) {
	began := time.Now()
	drivers, err := r.manager.Drivers()
	if err != nil {
		return nil, err
	}
	driver, fallback, err := drivers.Choose(ctx, r.Isolation, r.AllowHost, r.Progress)
	if err != nil {
		return nil, err
	}
	r.start.Isolation, r.start.Fallback = driver.Isolation(), fallback
	r.start.OnHost = fallback != nil && r.start.Isolation == machine.None
	r.phase("choose", began)
	return driver, nil
}

// network returns the network of the machine, or nil if it has none.
func (r *run) network(driver machine.Driver) (*supervisor.Network, error) {
	if !r.Network {
		return nil, nil
	}
	if err := workspace.CheckNetwork(driver.Features()); err != nil {
		return nil, err
	}
	policy, err := egress.NewOpen(r.Egress.Allow, r.Egress.Deny, r.Egress.Open)
	return &supervisor.Network{Policy: policy}, err
}

// open returns a reference to the environment's image, which prevents the removal of the image. It
// pulls the environment if it is missing.
func (r *run) open(ctx context.Context) (*environment.ImageRef, error) {
	began := time.Now()
	image, err := r.manager.Environments.Use(ctx, r.Environment, r.Progress)
	if err != nil {
		return nil, err
	}
	r.phase("environment", began)
	return image, nil
}

func (r *run) phase(name string, began time.Time) {
	r.start.Phases = append(r.start.Phases, machine.Phase{Name: name, Duration: time.Since(began)})
}

// withSubject replaces the subject of each report by a name that the user knows.
func withSubject(subject string, report progress.Func) progress.Func {
	if report == nil {
		return nil
	}
	return func(e progress.Event) {
		e.Subject = subject
		report(e)
	}
}

// sweep removes the leftovers of killed runs while the command runs. It ignores errors, because
// Doctor and PruneEnvironments report them.
func sweep(m *workspace.Manager) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		supervisor.Sweep(m.Dirs)
	}()
	return done
}
