// Package isolation knows all drivers of this build, and picks the one for a machine.
package isolation

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

// Auto asks for the first of kvm, gvisor and tcg that has proved itself on the host.
const Auto machine.Isolation = "auto"

// Drivers are all that this build has. They keep what they have found out about the host.
type Drivers struct {
	Guests []machine.Driver // whose machines are isolated, in the order in which they are chosen
	Host   machine.Driver
}

// New makes them. It looks at nothing of the host yet.
func New(d dirs.Dirs, store *environment.Store, pyro string) (*Drivers, error) {
	program, err := guest.Find()
	if err != nil {
		return nil, err
	}
	emulator := func(isolation machine.Isolation) machine.Driver {
		return qemu.New(qemu.Config{Isolation: isolation, Dirs: d, Store: store, Guest: program})
	}
	return &Drivers{
		Guests: []machine.Driver{emulator(machine.KVM), gvisor.New(gvisor.Config{Dirs: d, Guest: program, Program: pyro}), emulator(machine.TCG)},
		Host:   host.New(host.Config{Dirs: d, Guest: program}),
	}, nil
}

// Of gives the driver of one isolation, proved or not.
func (d *Drivers) Of(isolation machine.Isolation) (machine.Driver, error) {
	for _, driver := range append(d.Guests[:len(d.Guests):len(d.Guests)], d.Host) {
		if driver.Isolation() == isolation {
			return driver, nil
		}
	}
	return nil, unknown(isolation)
}

func unknown(isolation machine.Isolation) error {
	return fault.New(fault.Unsupported, "start a machine", string(isolation), "this build has no such isolation")
}

// Choose picks the driver for a machine: of the isolation that is wanted, which is never replaced by another, or the first for Auto. reason is set where auto
// came down to an emulated processor or, where that is allowed, to the host.
func (d *Drivers) Choose(ctx context.Context, wanted machine.Isolation, allowHost bool, report progress.Func) (chosen machine.Driver, reason, err error) {
	if wanted != Auto {
		chosen, err = only(ctx, d.Guests, wanted, report)
		return chosen, nil, err
	}
	chosen, reason, err = choose(ctx, d.Guests, report)
	if err != nil && allowHost && ctx.Err() == nil {
		return d.Host, err, d.Host.Prove(ctx, report)
	}
	return chosen, reason, err
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
func only(ctx context.Context, drivers []machine.Driver, wanted machine.Isolation, report progress.Func) (machine.Driver, error) {
	for _, d := range drivers {
		if d.Isolation() != wanted {
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
	return nil, unknown(wanted)
}
