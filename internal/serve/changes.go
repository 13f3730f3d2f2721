package serve

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// maxPatch is the maximum size of the body of a patch, in bytes. A host accepts 9 MiB of params.
const maxPatch = 8 << 20

// Fork describes a copy of a sandbox.
type Fork struct {
	Live     bool              `json:"live,omitempty" doc:"Also copy the memory and the processes"`
	Snapshot string            `json:"snapshot,omitempty" maxLength:"64" doc:"Copy this checkpoint; default: the current state"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Default: the metadata of the source"`
}

// Reset names the state to return to.
type Reset struct {
	Snapshot string `json:"snapshot,omitempty" maxLength:"64" doc:"A checkpoint; default: the state after the creation"`
}

// bindChanges binds the operations for forks, differences, patches and checkpoints.
func (s *Server) bindChanges(base string) {
	one := "/v1/" + base + "/{id}"
	huma.Register(s.api, operation(http.MethodPost, one+"/fork", base+"-fork", "Create a sandbox from a copy of this one", store.RoleMember, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			ByID
			Key  string `header:"Idempotency-Key" maxLength:"255" doc:"If a request is repeated with the same key, it returns the same sandbox"`
			Body Fork
		}) (*body[Sandbox], error) {
			request, err := hashOf(map[string]any{"fork": in.ID, "of": in.Body})
			if err != nil {
				return nil, err
			}
			return answer(s.control.ForkSandbox(ctx, identity(ctx).Actor, in.ID, control.Fork{
				Live: in.Body.Live, Snapshot: in.Body.Snapshot, Metadata: in.Body.Metadata, Key: in.Key, Request: request,
			}))
		})

	const differences = "Show how /workspace differs from its baseline"
	register(s, operation(http.MethodGet, one+"/diff", base+"-diff", differences, store.RoleViewer), "diff_workspace", diffOf)
	register(s, operation(http.MethodPost, one+"/diff", base+"-diff-paths", differences, store.RoleViewer), "diff_workspace", requestIn[pyro.DiffWorkspaceRequest, pyro.WorkspaceDiff])
	register(s, operation(http.MethodPost, one+"/patch", base+"-patch", "Apply a unified diff, completely or not at all", store.RoleMember, largest(maxPatch)),
		"apply_workspace_patch", requestIn[pyro.ApplyWorkspacePatchRequest, pyro.AppliedPatch])
	register(s, operation(http.MethodGet, one+"/checkpoints", base+"-checkpoints", "List the checkpoints", store.RoleViewer),
		"list_snapshots", byID[pyro.WorkspaceSnapshots])
	register(s, operation(http.MethodPost, one+"/checkpoints", base+"-checkpoints-create", "Save /workspace under a name", store.RoleMember, status(http.StatusCreated)),
		"create_snapshot", requestIn[pyro.CreateSnapshotRequest, pyro.WorkspaceSnapshot])
	register(s, operation(http.MethodDelete, one+"/checkpoints/{name}", base+"-checkpoints-delete", "Delete a checkpoint", store.RoleMember),
		"delete_snapshot", func(in *struct {
			ByID
			Name string `path:"name" maxLength:"64"`
		}) (string, checkpoint, pyro.DeletedSnapshot) {
			return in.ID, checkpoint{in.Name}, pyro.DeletedSnapshot{}
		})
	huma.Register(s.api, operation(http.MethodPost, one+"/reset", base+"-reset", "Start over from the state after the creation or from a checkpoint, with a fresh machine", store.RoleMember),
		func(ctx context.Context, in *struct {
			ByID
			Body Reset
		}) (*body[Sandbox], error) {
			if _, err := callOperation[Reset, pyro.Workspace](ctx, s, in.ID, "reset_workspace", true, in.Body); err != nil {
				return nil, err
			}
			return answer(s.control.Sandbox(ctx, identity(ctx).Actor, in.ID))
		})
}

// checkpoint is a request that names a checkpoint.
type checkpoint struct {
	Name string `json:"snapshot_name"`
}

// diffQuery are the parameters of a difference.
type diffQuery struct {
	ByID
	Paths          []string `query:"paths,explode" maxItems:"100" doc:"Only these files and folders; default: all"`
	IncludeIgnored bool     `query:"include_ignored" doc:"Include files that .gitignore names"`
	Stat           bool     `query:"stat" doc:"Without the patch"`
}

func diffOf(in *diffQuery) (string, pyro.DiffWorkspaceRequest, pyro.WorkspaceDiff) {
	return in.ID, pyro.DiffWorkspaceRequest{Paths: in.Paths, IncludeIgnored: in.IncludeIgnored, Stat: in.Stat}, pyro.WorkspaceDiff{}
}
