// Package doctor checks what a host can do. It tests each driver, lists the environments and
// templates, and looks for the tools that they need.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// Status is the result of a check.
type Status string

// The results.
const (
	OK   Status = "ok"
	Warn Status = "warn" // something is missing, but commands can run
	Fail Status = "fail" // no command can run
)

// Check is the result of one check.
type Check struct {
	Name   string
	Status Status
	Detail string // the finding.
	Hint   string // a command or an action that fixes the problem
}

// Config lists the folders and programs to check.
type Config struct {
	Dirs     dirs.Dirs
	Store    *environment.Store
	Program  string // path of the command pyro; see gvisor.FindHelper
	Drivers  func() (*isolation.Drivers, error)
	Progress progress.Func
}

// Examine runs all checks in a fixed order. If no check fails, `pyro run` works. Examine also
// removes the leftovers of machines whose pyro process was killed.
func Examine(ctx context.Context, cfg Config) []Check {
	checks := []Check{platform(), folder("cache_folder", cfg.Dirs.Cache), folder("state_folder", cfg.Dirs.State), agent(), qemuProgram(ctx), gvisorProgram(ctx, cfg.Program), cgroups()}
	checks = append(checks, levels(ctx, cfg)...)
	return append(checks, environments(ctx, cfg.Store), templates(cfg.Dirs), builders(), userNamespaces(), leftovers(cfg.Dirs))
}

// failed converts an error to a check. It joins the lines of the error, because Detail must be a
// single line.
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

// levels tests each known driver. The host is usable if a driver for a level in drivers.Auto works.
func levels(ctx context.Context, cfg Config) []Check {
	drivers, err := cfg.Drivers()
	if err != nil {
		return []Check{failed("isolation", Fail, err)}
	}
	var checks []Check
	found := map[machine.Isolation]Check{}
	for _, d := range drivers.Known {
		c := Check{Name: "isolation_" + string(d.Isolation()), Status: OK, Detail: "proved on this host"}
		if err := d.Prove(ctx, cfg.Progress); err != nil {
			c = failed(c.Name, Warn, isolation.CauseOf(err, d.Isolation()))
		}
		found[d.Isolation()] = c
		checks = append(checks, c)
	}
	all := Check{Name: "isolation", Status: OK}
	works := func(level machine.Isolation) bool { return found[level].Status == OK }
	if used := slices.IndexFunc(drivers.Auto, works); used >= 0 {
		all.Detail = string(drivers.Auto[used]) + " is used"
	} else {
		all.Status, all.Detail = Fail, "no machine can be started on this host"
		all.Hint = found[drivers.Auto[len(drivers.Auto)-1]].Hint // the last level has the fewest requirements
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
		return Check{name, Warn, "none is installed; the first run pulls its environment", "pyro env pull debian:12"}
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
	return Check{Name: name, Status: OK, Detail: fmt.Sprintf("removed leftovers of killed machines: %d", n)}
}
