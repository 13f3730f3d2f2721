package pyro

import (
	"context"
	"fmt"

	"github.com/pyro-mcp/pyro/internal/doctor"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// DoctorReport tells what a host can do.
type DoctorReport struct {
	OK     bool    `json:"ok"` // RunInVM can work: no check failed
	Checks []Check `json:"checks"`

	// Environment is what the next start of a machine from DoctorRequest.Environment will find; nil where none was asked for.
	Environment *Preparation `json:"environment,omitempty"`
}

// Check is one thing that was looked at.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Detail string      `json:"detail"`         // what was found
	Hint   string      `json:"hint,omitempty"` // a command or a step that mends it
}

// CheckStatus is the outcome of a check.
type CheckStatus = doctor.Status

// The outcomes.
const (
	CheckOK   = doctor.OK
	CheckWarn = doctor.Warn // something is missing that a run can do without
	CheckFail = doctor.Fail // no run can work
)

// DoctorRequest says how to examine a host.
type DoctorRequest struct {
	Environment string `json:"environment,omitempty"` // to tell of too, see PrepareEnvironment

	Progress ProgressFunc `json:"-"`
}

// Doctor finds out what this host can do, and what mends what it can't. It boots the guest kernel where that was never tried on this host, and tidies what
// runs that were killed left behind. It fails only where ctx ends it, or for an environment that there can't be: what is wrong with the host is in the report.
func (p *Pyro) Doctor(ctx context.Context, req DoctorRequest) (*DoctorReport, error) {
	if req.Environment != "" {
		if err := p.known(ctx, req.Environment); err != nil {
			return nil, err
		}
	}
	checks := doctor.Examine(ctx, doctor.Config{
		Dirs: p.dirs, Store: p.store, Program: p.program(), Progress: req.Progress.adapt(),
		Drivers: func() ([]machine.Driver, error) {
			all, err := p.drivers()
			if err != nil {
				return nil, err
			}
			return all.Guests, nil
		},
	})
	if err := ctx.Err(); err != nil {
		return nil, because(ctx, err)
	}
	checks = append(checks, p.examineWorkspaces(ctx))
	report := &DoctorReport{OK: true}
	for _, c := range checks {
		report.OK = report.OK && c.Status != doctor.Fail
		report.Checks = append(report.Checks, Check(c))
	}
	if req.Environment == "" {
		return report, nil
	}
	// After the checks, which prove drivers: the next start finds that done.
	var check Check
	report.Environment, check = p.examineEnvironment(ctx, req)
	if err := ctx.Err(); err != nil {
		return nil, because(ctx, err)
	}
	report.OK = report.OK && check.Status != CheckFail
	report.Checks = append(report.Checks, check)
	return report, nil
}

// examineWorkspaces names the folders of workspaces that no record knows of.
func (p *Pyro) examineWorkspaces(ctx context.Context) doctor.Check {
	const name = "workspaces"
	orphans, err := p.workspaces.Orphans(ctx)
	switch {
	case err != nil:
		return doctor.Check{Name: name, Status: doctor.Warn, Detail: fault.Printable(err.Error()), Hint: HintOf(err)}
	case len(orphans) > 0:
		return doctor.Check{
			Name: name, Status: doctor.Warn, Hint: "pyro env prune removes them, as the next create or fork does; to keep one, move it out of " + p.dirs.Workspaces() + " first",
			Detail: fmt.Sprintf("%d folders in %s have no record: %q", len(orphans), p.dirs.Workspaces(), orphans[:min(len(orphans), maxOrphans)]),
		}
	}
	return doctor.Check{Name: name, Status: doctor.OK, Detail: "each folder has its record"}
}

// maxOrphans bounds how many folders are named.
const maxOrphans = 10

// examineEnvironment tells what the next start from an environment will find.
func (p *Pyro) examineEnvironment(ctx context.Context, req DoctorRequest) (*Preparation, Check) {
	check := Check{Name: "environment", Status: CheckOK}
	plain, err := p.preparation(ctx, req.Environment, "", req.Progress)
	if err != nil {
		check.Status, check.Detail, check.Hint = CheckFail, err.Error(), HintOf(err)
		return &Preparation{Environment: req.Environment, Status: Cold, Reason: err.Error(), NetworkStatus: Cold}, check
	}
	check.Detail = fmt.Sprintf("%s is %s under %s", plain.Environment, plain.Status, plain.Isolation)
	switch {
	case plain.Status != Warm:
		check.Status, check.Hint = CheckWarn, "pyro prepare "+req.Environment
		check.Detail += ": " + plain.Reason
	case plain.NetworkStatus != Warm:
		check.Detail += fmt.Sprintf(", and %s with a network: pyro prepare --network %s", plain.NetworkStatus, req.Environment)
	}
	return plain, check
}
