package operations

import (
	"context"
	"net/http"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// Sandboxes are the workspaces that a control plane manages for the client of a call. They have the
// tools of workspaces.
type Sandboxes interface {
	Remote
	Create(ctx context.Context, req NewSandbox) (*pyro.Workspace, error)
	List(ctx context.Context, filter pyro.WorkspaceFilter) (*Workspaces, error)
	Status(ctx context.Context, id string) (*pyro.Workspace, error)
	Pause(ctx context.Context, id string) (*pyro.Workspace, error)
	Resume(ctx context.Context, id string) (*pyro.Workspace, error)
	Delete(ctx context.Context, id string) (*pyro.DeletedWorkspace, error)
	Fork(ctx context.Context, req ForkSandbox) (*pyro.Workspace, error)
}

// NewSandbox describes a new sandbox. Fields that are zero have the defaults of the control plane.
type NewSandbox struct {
	Environment string            `json:"environment"`
	VCPUCount   int               `json:"vcpu_count,omitempty"`
	MemMiB      int               `json:"mem_mib,omitempty"`
	DiskMiB     int               `json:"disk_mib,omitempty"`
	TTLSeconds  int               `json:"ttl_seconds,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// ForkSandbox describes copies of a sandbox. Sandboxes.Fork creates one fork, and ignores Count.
type ForkSandbox struct {
	WorkspaceID string            `json:"workspace_id"`
	Snapshot    string            `json:"snapshot,omitempty"`
	Live        bool              `json:"live,omitempty"`
	Count       int               `json:"count,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// sandboxInstructions tell an agent how to use the tools of sandboxes.
const sandboxInstructions = "Work on code in isolated machines of a server. workspace_create makes a workspace; then read and write files with workspace_file_* and " +
	"workspace_patch_apply, run commands with workspace_exec, see your changes with workspace_diff, start over with workspace_reset, and delete the workspace when you " +
	"are done. Workspaces have no files of the user's computer. The next call on a paused workspace resumes it. Services run in the background, shells run interactive " +
	"programs, snapshots save states to return to."

// SandboxTools are the tools for sandboxes. None of them uses files of the client's host, or
// machines that do not belong to a team. Servers share them, because their schemas take a megabyte.
type SandboxTools struct{ all []mcp.Tool }

// NewServer returns a server with the tools. The caller must Close it.
func (t SandboxTools) NewServer() *Server {
	return &Server{mcp.NewServer("pyro", pyro.Version(), sandboxInstructions, t.all)}
}

// GroupHandler serves the clients of a group, which the caller has authenticated. The function user
// names the client of a request.
func (s *Server) GroupHandler(user func(*http.Request) string) http.Handler {
	return s.server.GroupHandler(user)
}

// Sessions returns the number of sessions over HTTP.
func (s *Server) Sessions() int { return s.server.Sessions() }

// NewSandboxTools returns the tools in the order of the table.
func NewSandboxTools(to Sandboxes) SandboxTools {
	var all []mcp.Tool
	own := map[string]func(Tool) mcp.Tool{
		"create_workspace": func(t Tool) mcp.Tool { return createSandbox(t, to) },
		"list_workspaces": controlled(func(ctx context.Context, req pyro.WorkspaceFilter) (*Workspaces, error) {
			return to.List(ctx, req)
		}),
		"status_workspace": controlled(onSandbox(to.Status)), "pause_workspace": controlled(onSandbox(to.Pause)),
		"resume_workspace": controlled(onSandbox(to.Resume)), "delete_workspace": controlled(onSandbox(to.Delete)),
		"fork_workspace": controlled(func(ctx context.Context, req ForkSandbox) (*Forks, error) { return forkSandboxes(ctx, to, req) }),
	}
	for _, o := range table("") {
		switch make := own[o.Method]; {
		case make != nil:
			all = append(all, make(o.Tool).Without("name"))
		case o.needs != local && o.Tool.Name != "":
			do := o.Tool.do
			if do == nil {
				do = o.do
			}
			all = append(all, do.remoteTool(o.Tool, o.Method, to).Without("secret_env", "published_ports"))
		}
	}
	return SandboxTools{all}
}

// controlled returns a function that makes a tool from an operation of a control plane.
func controlled[Req, Res any](do func(ctx context.Context, req Req) (Res, error)) func(Tool) mcp.Tool {
	return func(t Tool) mcp.Tool {
		return bound[Req, Res]{func(_ *pyro.Pyro, ctx context.Context, req Req) (Res, error) { return do(ctx, req) }}.tool(t, nil)
	}
}

func onSandbox[Res any](do func(ctx context.Context, id string) (Res, error)) func(ctx context.Context, req onWorkspace) (Res, error) {
	return func(ctx context.Context, req onWorkspace) (Res, error) { return do(ctx, req.WorkspaceID) }
}

// createSandbox returns the tool that creates a sandbox.
func createSandbox(t Tool, to Sandboxes) mcp.Tool {
	t.Description = "Create a persistent workspace: an isolated machine with files in /workspace."
	t.Args = []mcp.Arg{
		mcp.String("environment", "such as debian:12, or the name of a template").Require(),
		mcp.Integer("vcpu_count", "", 1, pyro.MaxVCPUCount).Default(pyro.DefaultVCPUCount), mcp.Integer("mem_mib", "", pyro.MinMemMiB, 0).Default(pyro.DefaultMemMiB),
		mcp.Integer("ttl_seconds", "pause it after this time without use; default: never", 1, pyro.MaxSeconds), mcp.StringMap("labels", ""),
		mcp.Integer("disk_mib", "size of /workspace", pyro.MinDiskMiB, pyro.MaxDiskMiB).Default(pyro.DefaultDiskMiB),
	}
	return controlled(to.Create)(t)
}

// forkSandboxes creates forks one after the other. If a fork fails, the result has the earlier
// forks and the error.
func forkSandboxes(ctx context.Context, to Sandboxes, req ForkSandbox) (*Forks, error) {
	all := &Forks{ForkedWorkspaces: &pyro.ForkedWorkspaces{WorkspaceID: req.WorkspaceID, Workspaces: []pyro.Workspace{}}}
	for range max(1, req.Count) {
		w, err := to.Fork(ctx, req)
		if err != nil && all.Count == 0 {
			return nil, err
		}
		if err != nil {
			report := fault.ReportOf(err)
			all.Error = &report
			break
		}
		all.Workspaces = append(all.Workspaces, *w)
		all.Count++
	}
	return all, nil
}
