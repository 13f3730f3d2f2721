// Package preparation tells how fast the next start of a machine will be: warm, cold or stale.
//
// Warm is what the environments and the drivers find there, asked each time. That something was prepared once, and from what, is noted ([Remember]); the note
// says no more than why it has to be made again.
package preparation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Status says what the next start will find.
type Status string

// The statuses.
const (
	Warm  Status = "warm"  // all that it starts from
	Cold  Status = "cold"  // not all: it makes what is missing
	Stale Status = "stale" // something that was made from what has changed since, or that is damaged: it makes that again
)

// Config says where to look.
type Config struct {
	Dirs     dirs.Dirs
	Store    *environment.Store
	Drivers  []machine.Driver // in the order in which they are chosen
	Progress progress.Func
}

// Machine says of what machines.
type Machine struct {
	Environment   string
	Isolation     machine.Isolation // or isolation.Auto
	Network       bool
	VCPUs, MemMiB int
}

// spec is what of a machine counts for what it starts from.
func (m Machine) spec(root machine.Root) machine.Spec {
	s := machine.Spec{Root: root, VCPUs: m.VCPUs, MemMiB: m.MemMiB}
	if m.Network {
		s.Network = &machine.Network{}
	}
	return s
}

// State is what was found.
type State struct {
	Environment string // by its full name
	Digest      string // of what is installed, or empty
	Isolation   machine.Isolation
	Network     bool
	Status      Status
	Reason      string // why it is not warm

	parts map[string]string
}

// Look tells what the next start of such a machine will find. It makes, boots and fetches nothing. The error says why none can be started on this host, or that
// there can be no such environment.
func Look(ctx context.Context, cfg Config, m Machine) (State, error) {
	s := State{Environment: m.Environment, Network: m.Network, Status: Cold}
	var root machine.Root
	lease, err := cfg.Store.Find(ctx, m.Environment, cfg.Progress)
	switch {
	case err == nil:
		defer lease.Close()
		s.Environment, s.Digest = lease.Name, lease.Digest
		root = machine.Root{Digest: lease.Digest, Image: lease.Image}
	case fault.KindOf(err) == fault.Corrupt:
		s.Status, s.Reason = Stale, err.Error()
	case errors.Is(err, environment.ErrNotInstalled):
		s.Reason = "the environment is not installed"
	default:
		return s, err
	}
	driver, r, err := ready(ctx, cfg.Drivers, m, root)
	if err != nil {
		return s, err
	}
	s.Isolation, s.parts = driver.Isolation(), r.Parts
	switch {
	case s.Reason != "":
	case r.Missing == "":
		s.Status = Warm
	case r.Damaged:
		s.Status, s.Reason = Stale, r.Missing
	default:
		s.Reason = r.Missing
		if changed := recall(cfg.Dirs, s).changed(r.Parts); changed != "" {
			s.Status, s.Reason = Stale, s.Reason+", for "+changed
		}
	}
	return s, nil
}

// ready asks the driver that would be chosen: the first of those wanted that has no reason why it can't.
func ready(ctx context.Context, drivers []machine.Driver, m Machine, root machine.Root) (machine.Driver, machine.Readiness, error) {
	var reasons []string
	hint := "pyro doctor"
	for _, d := range drivers {
		if m.Isolation != isolation.Auto && m.Isolation != d.Isolation() {
			continue
		}
		r, err := d.Ready(ctx, m.spec(root))
		if err == nil {
			return d, r, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, r, err
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", d.Isolation(), err))
		if m.Isolation != isolation.Auto && fault.HintOf(err) != "" {
			hint = fault.HintOf(err)
		}
	}
	return nil, machine.Readiness{}, &fault.Error{
		Kind: fault.Unavailable, Hint: hint, Err: errors.New("no machine can be started on this host: " + strings.Join(reasons, "; ")),
	}
}

// Forget has the drivers remove what such machines start from, so that the next start makes it again. Environment and kernel stay.
func Forget(ctx context.Context, cfg Config, m Machine) error {
	lease, err := cfg.Store.Find(ctx, m.Environment, cfg.Progress)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Corrupt {
		return nil // what was made of it is not what will be made
	}
	if err != nil {
		return err
	}
	defer lease.Close()
	root := machine.Root{Digest: lease.Digest, Image: lease.Image}
	driver, _, err := ready(ctx, cfg.Drivers, m, root)
	if err != nil {
		return err
	}
	return driver.Forget(ctx, m.spec(root))
}

// changed names the parts that are not what they were, as a sentence has them; empty where none is.
func (n note) changed(now map[string]string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(n.Parts)) {
		if part, ok := now[name]; ok && part != n.Parts[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	has := " has"
	if len(names) > 1 {
		has = " have"
		names = []string{strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]}
	}
	return names[0] + has + " changed since it was prepared on " + n.At.Format("2006-01-02")
}
