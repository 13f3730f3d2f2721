package operations

import (
	"context"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Requests of operations that take only names.
type (
	onEnvironment struct {
		Environment string `json:"environment"`
	}
	onVM struct {
		VMID string `json:"vm_id"`
	}
	onWorkspace struct {
		WorkspaceID string `json:"workspace_id"`
	}
	onSnapshot struct {
		WorkspaceID  string `json:"workspace_id"`
		SnapshotName string `json:"snapshot_name"`
	}
	onService struct {
		WorkspaceID string `json:"workspace_id"`
		ServiceName string `json:"service_name"`
	}
	onShell struct {
		WorkspaceID string `json:"workspace_id"`
		ShellID     string `json:"shell_id"`
	}
)

// named adapts a function that takes one name. The function nameOf returns the name in a request.
func named[Req, Res any](do Function[string, Res], nameOf func(Req) string) Function[Req, Res] {
	return func(p *pyro.Pyro, ctx context.Context, req Req) (Res, error) { return do(p, ctx, nameOf(req)) }
}

// inside adapts a function that takes a workspace and the name of something in it.
func inside[Req, Res any](do func(p *pyro.Pyro, ctx context.Context, workspace, name string) (Res, error), namesOf func(Req) (workspace, name string)) Function[Req, Res] {
	return func(p *pyro.Pyro, ctx context.Context, req Req) (Res, error) {
		workspace, name := namesOf(req)
		return do(p, ctx, workspace, name)
	}
}

func byEnvironment[Res any](do Function[string, Res]) Function[onEnvironment, Res] {
	return named(do, func(on onEnvironment) string { return on.Environment })
}

func byVM[Res any](do Function[string, Res]) Function[onVM, Res] {
	return named(do, func(on onVM) string { return on.VMID })
}

func byWorkspace[Res any](do Function[string, Res]) Function[onWorkspace, Res] {
	return named(do, func(on onWorkspace) string { return on.WorkspaceID })
}

func bySnapshot[Res any](do func(*pyro.Pyro, context.Context, string, string) (Res, error)) Function[onSnapshot, Res] {
	return inside(do, func(on onSnapshot) (string, string) { return on.WorkspaceID, on.SnapshotName })
}

func byService[Res any](do func(*pyro.Pyro, context.Context, string, string) (Res, error)) Function[onService, Res] {
	return inside(do, func(on onService) (string, string) { return on.WorkspaceID, on.ServiceName })
}

func byShell[Res any](do func(*pyro.Pyro, context.Context, string, string) (Res, error)) Function[onShell, Res] {
	return inside(do, func(on onShell) (string, string) { return on.WorkspaceID, on.ShellID })
}

// without adapts a function that takes no request.
func without[Res any](do func(*pyro.Pyro, context.Context) (Res, error)) Function[struct{}, Res] {
	return func(p *pyro.Pyro, ctx context.Context, _ struct{}) (Res, error) { return do(p, ctx) }
}

// HostSettings is the list of the host's network settings.
type HostSettings struct {
	Settings []pyro.HostNetworkSetting `json:"settings"`
}

// HostNetworkSettings lists the network settings of the host.
func HostNetworkSettings(p *pyro.Pyro, ctx context.Context) (*HostSettings, error) {
	all, err := p.HostNetworkSettings(ctx)
	return &HostSettings{all}, err
}

// Environments is the list of environments.
type Environments struct {
	Environments []pyro.Environment `json:"environments"`
}

// ListEnvironments is [pyro.Pyro.ListEnvironments] with an object instead of a list as its result.
func ListEnvironments(p *pyro.Pyro, ctx context.Context) (*Environments, error) {
	all, err := p.ListEnvironments(ctx)
	return &Environments{all}, err
}

// Workspaces is a list of workspaces.
type Workspaces struct {
	Count      int                     `json:"count"`
	Workspaces []pyro.WorkspaceSummary `json:"workspaces"`
}

// ListWorkspaces is [pyro.Pyro.ListWorkspaces] with an object instead of a list as its result.
func ListWorkspaces(p *pyro.Pyro, ctx context.Context, filter pyro.WorkspaceFilter) (*Workspaces, error) {
	all, err := p.ListWorkspaces(ctx, filter)
	return &Workspaces{len(all), all}, err
}

// Forks is the result of ForkWorkspace: the new workspaces, and the error of the first fork that
// failed.
type Forks struct {
	*pyro.ForkedWorkspaces
	Error *fault.Report `json:"error,omitempty"`
}

// ForkWorkspace calls [pyro.Pyro.ForkWorkspace]. If only some forks fail, the result contains the
// error and the other forks, because these forks exist.
func ForkWorkspace(p *pyro.Pyro, ctx context.Context, req pyro.ForkWorkspaceRequest) (*Forks, error) {
	made, err := p.ForkWorkspace(ctx, req)
	if made == nil {
		return nil, err
	}
	all := &Forks{ForkedWorkspaces: made}
	if err != nil {
		report := fault.ReportOf(err)
		all.Error = &report
	}
	return all, nil
}
