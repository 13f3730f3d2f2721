package pyro

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// ServerOption says more of a server than its profile.
type ServerOption func(*serverOptions)

type serverOptions struct{ project string }

// WithProject has workspace_create fill workspaces with a folder of the host where its seed_path is left out. The folder is read when a workspace is created;
// an empty path is none. ProfileVMRun has no use for it.
func WithProject(path string) ServerOption { return func(o *serverOptions) { o.project = path } }

// complete checks what was set, and makes the project's path absolute.
func (o *serverOptions) complete() error {
	if o.project == "" {
		return nil
	}
	path, err := filepath.Abs(o.project)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(err, "take the project", o.project)
	}
	if !info.IsDir() {
		return fault.New(Invalid, "take the project", o.project, "it is no folder")
	}
	o.project = path
	return nil
}

// seeded is a request for a workspace whose seed_path may be left out, which is something else than "".
type seeded struct {
	CreateWorkspaceRequest
	SeedPath *string `json:"seed_path,omitempty"`
}

// from is the request with what was left out.
func (r seeded) from(project string) CreateWorkspaceRequest {
	req := r.CreateWorkspaceRequest
	if r.SeedPath != nil {
		req.SeedPath = *r.SeedPath
	} else {
		req.SeedPath, req.fromProject = project, project != ""
	}
	return req
}

// exported is a request for an export with the argument that tools have.
type exported struct {
	ExportWorkspaceRequest
	Overwrite bool `json:"overwrite"`
}

// forked are the workspaces that were made, and why there are not more if some failed.
type forked struct {
	*ForkedWorkspaces
	Incomplete string `json:"incomplete,omitempty"`
}

// forkForAgent returns the forks that were made even if others failed: they exist, and the agent must know them.
func (p *Pyro) forkForAgent(ctx context.Context, req ForkWorkspaceRequest, report func(string)) (*forked, error) {
	req.Progress = progressOf(report)
	made, err := p.ForkWorkspace(ctx, req)
	if made == nil {
		return nil, err
	}
	all := &forked{ForkedWorkspaces: made}
	if err != nil {
		all.Incomplete = err.Error()
	}
	return all, nil
}
