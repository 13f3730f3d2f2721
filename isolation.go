package pyro

import (
	"context"
	"errors"
	"strings"

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

// Isolation is what stands between a machine and the host.
type Isolation string

// The levels, strongest first.
const (
	IsolationKVM    = Isolation(machine.KVM)    // a virtual machine on the processor's own virtualisation
	IsolationGVisor = Isolation(machine.GVisor) // a kernel in user space
	IsolationTCG    = Isolation(machine.TCG)    // a virtual machine on an emulated processor
	IsolationNone   = Isolation(machine.None)   // a process of the host: nothing isolates it
)

// IsolationAuto asks for the first of kvm, gvisor and tcg that has proved itself on the host. A result never has it.
const IsolationAuto Isolation = "auto"

// Isolations are those that can be asked for.
var Isolations = []Isolation{IsolationAuto, IsolationKVM, IsolationGVisor, IsolationTCG}

// ExecutionMode says where a command ran.
type ExecutionMode string

// The modes.
const (
	Guest      ExecutionMode = "guest"       // in a machine
	HostCompat ExecutionMode = "host_compat" // on the host, as the user of pyro
)

// drivers are all that this build has.
type drivers struct {
	guests []machine.Driver // whose machines are isolated, in the order in which they are chosen
	host   machine.Driver
}

// newDrivers makes them. They keep what they have found out about the host.
func newDrivers(d dirs.Dirs, store *environment.Store) (drivers, error) {
	program, err := guest.Find()
	if err != nil {
		return drivers{}, err
	}
	emulator := func(isolation machine.Isolation) machine.Driver {
		return qemu.New(qemu.Config{Isolation: isolation, Dirs: d, Store: store, Guest: program})
	}
	return drivers{
		guests: []machine.Driver{emulator(machine.KVM), gvisor.New(gvisor.Config{Dirs: d, Guest: program}), emulator(machine.TCG)},
		host:   host.New(host.Config{Dirs: d, Guest: program}),
	}, nil
}

// choose gives the first driver that proves itself on this host. Where none does, the error tells the reason of each. A full disk is no such reason: it would
// keep the next from proving itself too. emulated says why it had to be an emulated processor, the last resort, where it had.
func choose(ctx context.Context, drivers []machine.Driver, report progress.Func) (d machine.Driver, emulated, err error) {
	var reasons []reason
	for _, d := range drivers {
		err := d.Prove(ctx, report)
		if err == nil {
			if last := len(reasons) - 1; last >= 0 && d.Isolation() == machine.TCG {
				emulated = reasons[last].err()
			}
			return d, emulated, nil
		}
		if ctx.Err() != nil || fault.KindOf(err) == fault.Exhausted {
			return nil, nil, err
		}
		reasons = note(reasons, string(d.Isolation()), err)
	}
	var text []string
	for _, r := range reasons {
		text = append(text, r.err().Error())
	}
	return nil, nil, &fault.Error{
		Kind: fault.Unavailable, Hint: "pyro doctor",
		Err: errors.New("no machine can be started on this host: " + strings.Join(text, "; ")),
	}
}

// reason is why some kinds of isolation can't be had.
type reason struct {
	isolations []string
	text       string
}

func (r reason) err() error {
	return errors.New(strings.Join(r.isolations, " and ") + ": " + r.text)
}

// note adds the reason of one kind, which may be that of the one before.
func note(reasons []reason, isolation string, err error) []reason {
	err = unproved(err, isolation)
	if last := len(reasons) - 1; last >= 0 && reasons[last].text == err.Error() {
		reasons[last].isolations = append(reasons[last].isolations, isolation)
		return reasons
	}
	return append(reasons, reason{[]string{isolation}, err.Error()})
}

// unproved gives why a level could not be proved, without its name, which is told already.
func unproved(err error, isolation string) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Subject == isolation {
		return f.Err
	}
	return err
}

// only gives the one driver of a level, proved on this host.
func only(ctx context.Context, drivers []machine.Driver, wanted Isolation, report progress.Func) (machine.Driver, error) {
	for _, d := range drivers {
		if Isolation(d.Isolation()) != wanted {
			continue
		}
		if err := d.Prove(ctx, report); err != nil {
			hint := fault.HintOf(err)
			if hint == "" {
				hint = "pyro doctor"
			}
			return nil, &fault.Error{Op: "start a machine", Subject: string(wanted), Kind: fault.KindOf(err), Hint: hint, Err: unproved(err, string(wanted))}
		}
		return d, nil
	}
	return nil, fault.New(Unsupported, "start a machine", string(wanted), "this build has no such isolation")
}

// driverFor picks the driver for a run: of the isolation that is wanted, which is never replaced by another, or the first for auto. reason is set where auto
// came down to an emulated processor or, where that is allowed, to the host.
func (p *Pyro) driverFor(ctx context.Context, wanted Isolation, allowHostCompat bool, report progress.Func) (d machine.Driver, reason, err error) {
	drivers, err := p.drivers()
	if err != nil {
		return nil, nil, err
	}
	if wanted != IsolationAuto {
		d, err = only(ctx, drivers.guests, wanted, report)
		return d, nil, err
	}
	d, reason, err = choose(ctx, drivers.guests, report)
	if err != nil && allowHostCompat && ctx.Err() == nil {
		return drivers.host, err, drivers.host.Prove(ctx, report)
	}
	return d, reason, err
}
