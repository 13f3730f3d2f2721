package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/doctor"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostnet"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Check is the result of a check of the host.
type Check = doctor.Check

// CheckStatus is the outcome of a check.
type CheckStatus = doctor.Status

// The outcomes.
const (
	CheckOK   = doctor.OK
	CheckWarn = doctor.Warn
	CheckFail = doctor.Fail
)

// Examine runs all checks of the host.
func Examine(ctx context.Context, m *workspace.Manager, report progress.Func) []Check {
	program, _ := m.Program() // a check reports a missing program
	checks := doctor.Examine(ctx, doctor.Config{
		Dirs: m.Dirs, Store: m.Environments, Program: program, Progress: report, Drivers: m.Drivers,
	})
	return append(checks, orphans(ctx, m), hostNetwork())
}

// hostNetwork lists the tools whose network settings differ from their defaults.
func hostNetwork() Check {
	const name = "network_settings"
	var found []string
	for _, s := range hostnet.Find(hostnet.ThisHost()).All {
		if s.Source != "default" && !slices.Contains(found, s.Tool) {
			found = append(found, s.Tool)
		}
	}
	if len(found) == 0 {
		return Check{Name: name, Status: CheckOK, Detail: "the tools of this host use their defaults"}
	}
	return Check{Name: name, Status: CheckOK, Detail: "this host has its own " + strings.Join(found, ", ") + "; machines get them with --host-network-settings"}
}

// maxOrphans is the maximum number of folders that a check names.
const maxOrphans = 10

// orphans checks for folders of workspaces that have no record in the database.
func orphans(ctx context.Context, m *workspace.Manager) Check {
	check := Check{Name: "workspaces", Status: CheckOK, Detail: "each folder has its record"}
	found, err := m.Orphans(ctx)
	folder := m.Dirs.Workspaces()
	switch {
	case err != nil:
		check.Status, check.Detail, check.Hint = CheckWarn, fault.Printable(err.Error()), fault.HintOf(err)
	case len(found) > 0:
		check.Status = CheckWarn
		check.Detail = fmt.Sprintf("folders without a record in %s: %d, %q", folder, len(found), found[:min(len(found), maxOrphans)])
		check.Hint = "pyro env prune removes them, as the next create or fork does; to keep one, move it out of " + folder + " first"
	}
	return check
}

// ExamineEnvironment looks at the next start of a machine, without a network and with a network.
// The check warns if the start without a network is not warm.
func ExamineEnvironment(ctx context.Context, m *workspace.Manager, p Preparation) (plain, networked State, check Check) {
	check = Check{Name: "environment", Status: CheckOK}
	plain, err := Look(ctx, m, p)
	if err == nil {
		p.Network = true
		networked, err = Look(ctx, m, p)
	}
	if err != nil {
		check.Status, check.Detail, check.Hint = CheckFail, err.Error(), fault.HintOf(err)
		return State{Environment: p.Environment, Status: Cold, Reason: err.Error()}, State{Status: Cold}, check
	}
	check.Detail = fmt.Sprintf("%s is %s under %s", plain.Environment, plain.Status, plain.Isolation)
	switch {
	case plain.Status != Warm:
		check.Status, check.Hint = CheckWarn, "pyro prepare "+p.Environment
		check.Detail += ": " + plain.Reason
	case networked.Status != Warm:
		check.Detail += fmt.Sprintf(", and %s with a network: pyro prepare --network %s", networked.Status, p.Environment)
	}
	return plain, networked, check
}
