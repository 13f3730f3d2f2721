// Package preparation reports how fast the next start of a machine will be: warm, cold or stale.
//
// A machine is warm if all files for its start exist and are up to date. [Check] asks the
// environment store and the drivers each time. [Remember] writes a note that a machine was
// prepared, with the parts that it depends on. The note is used only to explain why files must be
// created again.
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

// Status is the state of the files that the next start needs.
type Status string

// The statuses.
const (
	Warm  Status = "warm"  // all files exist.
	Cold  Status = "cold"  // some files are missing and must be created.
	Stale Status = "stale" // some files are damaged or depend on parts that have changed, and must be created again
)

// Config lists the folders and drivers to check.
type Config struct {
	Dirs     dirs.Dirs
	Store    *environment.Store
	Drivers  *isolation.Drivers
	Progress progress.Func
}

// Machine describes the machines whose start is examined or prepared.
type Machine struct {
	Environment   string
	Isolation     machine.Isolation // a level, or machine.Auto
	Network       bool
	VCPUs, MemMiB int
}

// spec returns a machine.Spec with the fields that decide which files the machine starts from.
func (m Machine) spec(root machine.Root) machine.Spec {
	s := machine.Spec{Root: root, VCPUs: m.VCPUs, MemMiB: m.MemMiB}
	if m.Network {
		s.Network = &machine.Network{}
	}
	return s
}

// State is the result of [Check].
type State struct {
	Environment string // the full name of the environment
	Digest      string // digest of the installed image; empty if there is none
	Isolation   machine.Isolation
	Network     bool
	Status      Status
	Reason      string // why it is not warm

	parts map[string]string
}

// Check checks which files the next start of such a machine will find. It does not create files,
// boot a machine or download anything. It returns an error if this host can't start such a machine,
// or if the environment can't exist.
func Check(ctx context.Context, cfg Config, m Machine) (State, error) {
	s := State{Environment: m.Environment, Network: m.Network, Status: Cold}
	var root machine.Root
	image, err := cfg.Store.Find(ctx, m.Environment, cfg.Progress)
	switch {
	case err == nil:
		defer image.Close()
		s.Environment, s.Digest = image.Name, image.Digest
		root = machine.Root{Digest: image.Digest, Image: image.Image}
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
		if changed := readNote(cfg.Dirs, s).changed(r.Parts); changed != "" {
			s.Status, s.Reason = Stale, s.Reason+", for "+changed
		}
	}
	return s, nil
}

// ready returns the driver that a start would choose, with its readiness. This is the first
// candidate whose method Ready returns no error.
func ready(ctx context.Context, drivers *isolation.Drivers, m Machine, root machine.Root) (machine.Driver, machine.Readiness, error) {
	candidates, err := drivers.Candidates(m.Isolation)
	if err != nil {
		return nil, machine.Readiness{}, err
	}
	var reasons []string
	hint := "pyro doctor"
	for _, d := range candidates {
		r, err := d.Ready(ctx, m.spec(root))
		if err == nil {
			return d, r, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, r, err
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", d.Isolation(), err))
		if m.Isolation != machine.Auto && fault.HintOf(err) != "" {
			hint = fault.HintOf(err)
		}
	}
	return nil, machine.Readiness{}, &fault.Error{
		Kind: fault.Unavailable, Hint: hint, Err: errors.New("no machine can be started on this host: " + strings.Join(reasons, "; ")),
	}
}

// Forget removes the files that such machines start from, so that the next start creates the files
// again. It does not remove the environment and the kernel.
func Forget(ctx context.Context, cfg Config, m Machine) error {
	image, err := cfg.Store.Find(ctx, m.Environment, cfg.Progress)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Corrupt {
		return nil // there is no usable image, so no file matches it
	}
	if err != nil {
		return err
	}
	defer image.Close()
	root := machine.Root{Digest: image.Digest, Image: image.Image}
	driver, _, err := ready(ctx, cfg.Drivers, m, root)
	if err != nil {
		return err
	}
	return driver.Invalidate(ctx, m.spec(root))
}

// changed lists the parts that have changed, as a part of a sentence. It returns "" if no part has
// changed.
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
