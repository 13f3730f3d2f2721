package serve

import (
	"cmp"
	"context"
	"maps"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// teamSandboxes implements operations.Sandboxes for the sender of a request.
type teamSandboxes struct{ *Server }

// Create implements operations.Sandboxes. It uses the defaults of workspaces, which differ from the
// defaults of sandboxes.
func (t teamSandboxes) Create(ctx context.Context, req operations.NewSandbox) (*pyro.Workspace, error) {
	i, err := member(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.control.CreateSandbox(ctx, i.Actor, control.Create{
		Template: req.Environment, VCPUs: int64(cmp.Or(req.VCPUCount, pyro.DefaultVCPUCount)), MemoryMB: int64(cmp.Or(req.MemMiB, pyro.DefaultMemMiB)),
		DiskMB: int64(cmp.Or(req.DiskMiB, pyro.DefaultDiskMiB)), TimeoutSec: int64(req.TTLSeconds), Metadata: req.Labels,
	})
	return t.workspace(ctx, b, err)
}

func (t teamSandboxes) List(ctx context.Context, filter pyro.WorkspaceFilter) (*operations.Workspaces, error) {
	i := identity(ctx)
	if err := i.Require(store.RoleViewer); err != nil {
		return nil, err
	}
	found, err := t.control.Sandboxes(ctx, i.Actor)
	if err != nil {
		return nil, err
	}
	all := &operations.Workspaces{Workspaces: []pyro.WorkspaceSummary{}}
	for _, b := range found {
		w := summaryOf(b)
		if filter.State != "" && filter.State != w.State || !includes(w.Labels, filter.Labels) {
			continue
		}
		all.Workspaces = append(all.Workspaces, w)
		all.Count++
	}
	return all, nil
}

func (t teamSandboxes) Status(ctx context.Context, id string) (*pyro.Workspace, error) {
	i := identity(ctx)
	if err := i.Require(store.RoleViewer); err != nil {
		return nil, err
	}
	b, err := t.control.Sandbox(ctx, i.Actor, id)
	return t.workspace(ctx, b, err)
}

func (t teamSandboxes) Pause(ctx context.Context, id string) (*pyro.Workspace, error) {
	i, err := member(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.control.PauseSandbox(ctx, i.Actor, id)
	return t.workspace(ctx, b, err)
}

func (t teamSandboxes) Resume(ctx context.Context, id string) (*pyro.Workspace, error) {
	i, err := member(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.control.ResumeSandbox(ctx, i.Actor, id)
	return t.workspace(ctx, b, err)
}

func (t teamSandboxes) Delete(ctx context.Context, id string) (*pyro.DeletedWorkspace, error) {
	i, err := member(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.control.DeleteSandbox(ctx, i.Actor, id); err != nil {
		return nil, err
	}
	return &pyro.DeletedWorkspace{WorkspaceID: id, Deleted: true}, nil
}

func (t teamSandboxes) Fork(ctx context.Context, req operations.ForkSandbox) (*pyro.Workspace, error) {
	i, err := member(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.control.ForkSandbox(ctx, i.Actor, req.WorkspaceID, control.Fork{Live: req.Live, Snapshot: req.Snapshot, Metadata: req.Labels})
	return t.workspace(ctx, b, err)
}

// member returns the sender of a request. It fails if the sender may not change sandboxes.
func member(ctx context.Context) (control.Identity, error) {
	i := identity(ctx)
	return i, i.Require(store.RoleMember)
}

// workspace returns the host's description of a sandbox, with the labels of the record.
func (t teamSandboxes) workspace(ctx context.Context, b store.Sandbox, err error) (*pyro.Workspace, error) {
	if err != nil {
		return nil, err
	}
	w, err := operations.CallRemote[struct{}, *pyro.Workspace](ctx, t, b.ID, "status_workspace", false, struct{}{})
	if err != nil {
		return nil, err
	}
	w.Labels = labelsOf(b)
	return w, nil
}

func labelsOf(b store.Sandbox) map[string]string {
	labels := maps.Clone(b.Metadata)
	if labels == nil {
		labels = map[string]string{}
	}
	return labels
}

// summaryOf returns a summary of a sandbox from its record. It does not ask the host.
func summaryOf(b store.Sandbox) pyro.WorkspaceSummary {
	w := pyro.WorkspaceSummary{WorkspaceID: b.ID, Labels: labelsOf(b), Environment: b.Template, State: pyro.StateStopped, CreatedAt: b.CreatedAt, LastActivityAt: b.ActiveAt}
	switch b.Status {
	case store.StatusPending:
		w.State = pyro.StateCreated
	case string(store.WantRunning):
		w.State = pyro.StateStarted
	case string(store.WantPaused):
		w.State = pyro.StatePaused
	case control.StatusMissing:
		w.State, w.StateReason = pyro.StateDamaged, "its host no longer has it"
	}
	return w
}

// includes reports whether labels contains all wanted labels.
func includes(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return true
}
