// Package isolation lists the drivers of this build and chooses a driver for a machine.
package isolation

import (
	"context"
	"errors"
	"slices"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor"
	"github.com/pyro-mcp/pyro/internal/machine/host"
	"github.com/pyro-mcp/pyro/internal/machine/qemu"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Drivers are the drivers of this build. The drivers remember what they found out about the host.
type Drivers struct {
	// Known are the drivers that a caller can request by level. Their order only determines the
	// order in the report of doctor.
	Known []machine.Driver
	// Auto are the levels that [machine.Auto] tries, in order of preference. A known driver whose
	// level is not in Auto starts a machine only if a caller requests this level.
	Auto []machine.Isolation
	// Host is the driver of host_compat. Callers can't request it by level.
	Host machine.Driver
}

// New creates the drivers. It does not examine the host. The parameter program is the path of the
// command pyro, or empty: see [gvisor.FindHelper].
func New(d dirs.Dirs, store *environment.Store, program string) (*Drivers, error) {
	agent, err := guest.Find()
	if err != nil {
		return nil, err
	}
	emulator := func(isolation machine.Isolation) machine.Driver {
		return qemu.New(qemu.Config{Isolation: isolation, Dirs: d, Store: store, Guest: agent})
	}
	return &Drivers{
		Known: []machine.Driver{
			emulator(machine.KVM),
			gvisor.New(gvisor.Config{Dirs: d, Guest: agent, Program: program}),
			emulator(machine.TCG),
		},
		Auto: []machine.Isolation{machine.KVM, machine.GVisor, machine.TCG},
		Host: host.New(host.Config{Dirs: d, Guest: agent}),
	}, nil
}

// Of returns the driver of a level, including the level of host_compat. It does not check whether
// the driver works. If there is no such driver, the error has the kind Unsupported.
func (d *Drivers) Of(isolation machine.Isolation) (machine.Driver, error) {
	if d.Host != nil && d.Host.Isolation() == isolation {
		return d.Host, nil
	}
	all, err := d.Candidates(isolation)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Candidates returns the drivers to try for a level, in order of preference. For [machine.Auto],
// these are the drivers of all levels in Auto; for another level, it is the driver of this level.
// If a level has no driver, the error has the kind Unsupported.
func (d *Drivers) Candidates(wanted machine.Isolation) ([]machine.Driver, error) {
	levels := []machine.Isolation{wanted}
	if wanted == machine.Auto {
		levels = d.Auto
	}
	var all []machine.Driver
	for _, level := range levels {
		i := slices.IndexFunc(d.Known, func(k machine.Driver) bool { return k.Isolation() == level })
		if i < 0 {
			return nil, fault.New(fault.Unsupported, "start a machine", string(level), "this build has no such isolation")
		}
		all = append(all, d.Known[i])
	}
	return all, nil
}

// Choose returns a driver that works on this host. If the caller wants a certain level, Choose
// never uses another level. The result reason says why [machine.Auto] chose emulation or, if
// allowHost is set, the host. In other cases, reason is nil.
func (d *Drivers) Choose(ctx context.Context, wanted machine.Isolation, allowHost bool, report progress.Func) (chosen machine.Driver, reason, err error) {
	candidates, err := d.Candidates(wanted)
	if err != nil {
		return nil, nil, err
	}
	if wanted != machine.Auto {
		return candidates[0], nil, proveOnly(ctx, candidates[0], report)
	}
	chosen, reason, err = first(ctx, candidates, report)
	if err != nil && allowHost && ctx.Err() == nil {
		return d.Host, err, d.Host.Prove(ctx, report)
	}
	return chosen, reason, err
}

// first returns the first driver that works on this host. If this driver emulates the processor,
// the result reason says why. If no driver works, the error contains all reasons. A full disk ends
// the search, because the test of the next driver would fail as well.
func first(ctx context.Context, candidates []machine.Driver, report progress.Func) (chosen machine.Driver, reason, err error) {
	var failed failures
	for _, d := range candidates {
		err := d.Prove(ctx, report)
		if err == nil {
			if d.Isolation() == machine.TCG {
				reason = failed.last()
			}
			return d, reason, nil
		}
		if ctx.Err() != nil || fault.KindOf(err) == fault.Exhausted {
			return nil, nil, err
		}
		failed.add(d.Isolation(), err)
	}
	return nil, nil, &fault.Error{
		Kind: fault.Unavailable, Hint: "pyro doctor",
		Err: errors.New("no machine can be started on this host: " + failed.String()),
	}
}

// proveOnly tests the driver of the level that the caller requested.
func proveOnly(ctx context.Context, d machine.Driver, report progress.Func) error {
	err := d.Prove(ctx, report)
	if err == nil {
		return nil
	}
	hint := fault.HintOf(err)
	if hint == "" {
		hint = "pyro doctor"
	}
	level := string(d.Isolation())
	return &fault.Error{Op: "start a machine", Subject: level, Kind: fault.KindOf(err), Hint: hint, Err: CauseOf(err, d.Isolation())}
}
