package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/upkeep"
)

// DoctorReport is the result of [Pyro.Doctor]: the checks of this host.
type DoctorReport struct {
	OK     bool    `json:"ok"` // no check failed, so RunInVM works
	Checks []Check `json:"checks"`

	// Environment describes the next start of a machine from DoctorRequest.Environment. It is nil
	// if the request named none.
	Environment *Preparation `json:"environment,omitempty"`
}

// Check is the result of one check.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Detail string      `json:"detail"`         // the finding.
	Hint   string      `json:"hint,omitempty"` // a command or an action that fixes the problem.
}

// CheckStatus is the outcome of a check.
type CheckStatus = upkeep.CheckStatus

// The outcomes.
const (
	CheckOK   = upkeep.CheckOK
	CheckWarn = upkeep.CheckWarn // something is missing, but commands can run
	CheckFail = upkeep.CheckFail // no command can run
)

// DoctorRequest contains the parameters of [Pyro.Doctor].
type DoctorRequest struct {
	Environment string `json:"environment,omitempty"` // also examine the next start from this environment; see PrepareEnvironment

	Progress ProgressFunc `json:"-"`
}

// Doctor examines this host and says how to fix problems. It boots the guest kernel if the kernel
// has never been tested on this host. It also removes the leftovers of killed runs. Problems of the
// host are part of the report. Doctor returns an error only if ctx ends, or if the environment of
// the request can't exist.
func (p *Pyro) Doctor(ctx context.Context, req DoctorRequest) (*DoctorReport, error) {
	if req.Environment != "" {
		if err := p.known(ctx, req.Environment); err != nil {
			return nil, err
		}
	}
	report := &DoctorReport{OK: true}
	for _, c := range upkeep.Examine(ctx, p.workspaces, req.Progress.adapt()) {
		report.add(c)
	}
	if req.Environment != "" && ctx.Err() == nil { // the checks above have tested the drivers
		report.examine(ctx, p, req)
	}
	if err := ctx.Err(); err != nil {
		return nil, causeOf(ctx, err)
	}
	return report, nil
}

// examine adds the state of the next start from an environment to the report.
func (r *DoctorReport) examine(ctx context.Context, p *Pyro, req DoctorRequest) {
	var isolation Isolation
	if err := completeIsolation(&isolation); err != nil {
		r.Environment = &Preparation{Environment: req.Environment, Status: Cold, Reason: err.Error(), NetworkStatus: Cold}
		r.add(upkeep.Check{Name: "environment", Status: CheckFail, Detail: err.Error(), Hint: HintOf(err)})
		return
	}
	plain, networked, check := upkeep.ExamineEnvironment(ctx, p.workspaces, preparationOf(req.Environment, isolation, req.Progress))
	r.Environment = &Preparation{
		plain.Environment, plain.Digest, Isolation(plain.Isolation), plain.Status, plain.Reason, networked.Status,
	}
	r.add(check)
}

func (r *DoctorReport) add(c upkeep.Check) {
	r.OK = r.OK && c.Status != CheckFail
	r.Checks = append(r.Checks, Check(c))
}
