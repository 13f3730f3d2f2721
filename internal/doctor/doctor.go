// Package doctor finds out what a host can do: it asks every driver and every environment to prove itself, and looks at what they need.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK   Status = "ok"
	Warn Status = "warn" // something is missing that a run can do without
	Fail Status = "fail" // no run can work
)

// Check is one thing that was looked at.
type Check struct {
	Name   string
	Status Status
	Detail string // what was found
	Hint   string // a command or a step that mends it
}

// Config says what to look at.
type Config struct {
	Dirs     dirs.Dirs
	Store    *environment.Store
	Program  string                           // pyro's, see gvisor.FindHelper
	Drivers  func() ([]machine.Driver, error) // whose machines are isolated, strongest first
	Progress progress.Func
}

// Examine makes all checks, in a fixed order. `pyro run` can work when none of them failed. It tidies what owners of machines that died left behind.
func Examine(ctx context.Context, cfg Config) []Check {
	checks := []Check{platform(), folder("cache_folder", cfg.Dirs.Cache), folder("state_folder", cfg.Dirs.State), agent(), qemuProgram(ctx), gvisorProgram(ctx, cfg.Program), cgroups()}
	checks = append(checks, isolation(ctx, cfg)...)
	return append(checks, environments(ctx, cfg.Store), templates(cfg.Dirs), builders(), userNamespaces(), leftovers(cfg.Dirs))
}

// failed describes an error as a check. The words of other programs may be many lines; a detail is one.
func failed(name string, status Status, err error) Check {
	return Check{Name: name, Status: status, Detail: strings.Join(strings.FieldsFunc(err.Error(), isLineEnd), "; "), Hint: fault.HintOf(err)}
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

func agent() Check {
	program, err := guest.Find()
	if err != nil {
		return failed("guest_agent", Fail, err)
	}
	return Check{Name: "guest_agent", Status: OK, Detail: program.Digest()}
}

// isolation asks each driver to prove itself. One that works is enough.
func isolation(ctx context.Context, cfg Config) []Check {
	drivers, err := cfg.Drivers()
	if err != nil {
		return []Check{failed("isolation", Fail, err)}
	}
	var checks []Check
	var works []string
	for _, d := range drivers {
		name := string(d.Isolation())
		if err := d.Prove(ctx, cfg.Progress); err != nil {
			var f *fault.Error
			if errors.As(err, &f) && f.Subject == name {
				err = f.Err // what was to be proved is the name of the check
			}
			checks = append(checks, failed("isolation_"+name, Warn, err))
			continue
		}
		works = append(works, name)
		checks = append(checks, Check{Name: "isolation_" + name, Status: OK, Detail: "proved on this host"})
	}
	all := Check{Name: "isolation", Status: OK}
	if len(works) > 0 {
		all.Detail = works[0] + " is used"
	} else {
		all.Status, all.Detail = Fail, "no machine can be started on this host"
		all.Hint = checks[len(checks)-1].Hint // of the one that needs least
	}
	return append(checks, all)
}

func environments(ctx context.Context, store *environment.Store) Check {
	const name = "environments"
	all, err := store.List(ctx)
	if err != nil {
		return failed(name, Fail, err)
	}
	var installed []string
	for _, e := range all {
		if e.Installed {
			installed = append(installed, e.Name)
		}
	}
	if len(installed) == 0 {
		return Check{name, Warn, "none is installed: the first run pulls the one it names", "pyro env pull debian:12"}
	}
	return Check{Name: name, Status: OK, Detail: strings.Join(installed, ", ")}
}

func templates(d dirs.Dirs) Check {
	const name = "templates"
	all, err := template.Store{Dir: d.Templates()}.List()
	if err != nil {
		return failed(name, Warn, err)
	}
	var total int64
	for _, t := range all {
		total += t.SizeBytes
	}
	return Check{Name: name, Status: OK, Detail: fmt.Sprintf("%d, %.1f GB", len(all), float64(total)/1e9)}
}

func leftovers(d dirs.Dirs) Check {
	const name = "leftovers"
	n, err := supervisor.Sweep(d)
	if err != nil {
		return failed(name, Warn, err)
	}
	if n == 0 {
		return Check{Name: name, Status: OK, Detail: "none"}
	}
	return Check{Name: name, Status: OK, Detail: fmt.Sprintf("tidied what %d machines left whose pyro was killed", n)}
}
