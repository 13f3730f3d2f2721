package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/doctor"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// DoctorReport tells what a host can do.
type DoctorReport struct {
	OK     bool    `json:"ok"` // RunInVM can work: no check failed
	Checks []Check `json:"checks"`
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
	Progress ProgressFunc `json:"-"`
}

// Doctor finds out what this host can do, and what mends what it can't. It boots the guest kernel where that was never tried on this host, and tidies what
// runs that were killed left behind. It fails only where ctx ends it: what is wrong with the host is in the report.
func (p *Pyro) Doctor(ctx context.Context, req DoctorRequest) (*DoctorReport, error) {
	checks := doctor.Examine(ctx, doctor.Config{
		Dirs: p.dirs, Store: p.store, Progress: req.Progress.adapt(),
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
	report := &DoctorReport{OK: true}
	for _, c := range checks {
		report.OK = report.OK && c.Status != doctor.Fail
		report.Checks = append(report.Checks, Check(c))
	}
	return report, nil
}
