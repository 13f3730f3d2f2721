package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// ListSandboxes gives all sandboxes.
func (a *Agent) ListSandboxes(_ context.Context, req *connect.Request[pb.ListSandboxesRequest]) (*connect.Response[pb.ListSandboxesResponse], error) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if err := a.acknowledge(req.Msg.AutoPausedUntil); err != nil {
		return nil, fault.Wrap(err, "list sandboxes", "")
	}
	m := &pb.ListSandboxesResponse{}
	for _, s := range a.all() {
		status, err := a.listed(s)
		if err != nil {
			return nil, fault.Wrap(err, "list sandboxes", "")
		}
		r := s.record()
		m.Sandboxes = append(m.Sandboxes, &pb.SandboxInfo{
			SandboxId: r.SandboxID, Status: status, Template: r.Template, Vcpus: int32(r.VCPUs), MemoryMb: int32(r.MemoryMB),
			CreatedAtUnix: r.CreatedAt.Unix(), LastActiveAtUnix: r.LastActive.Unix(), TimeoutSec: int32(r.TimeoutSec), TeamId: r.TeamID, TemplateId: r.TemplateID,
			Metadata: metadataOf(r),
		})
		if r.Inactive && status == statusPaused {
			m.AutoPausedSandboxIds = append(m.AutoPausedSandboxIds, r.SandboxID)
			m.AutoPausedCursor = max(m.AutoPausedCursor, a.tell(s))
		} else {
			s.told = 0
		}
	}
	return connect.NewResponse(m), nil
}

// metadataOf is what a control plane may show of a sandbox beside.
func metadataOf(r record) map[string]string {
	m := map[string]string{"environment": r.Environment}
	if r.WorkspaceID != "" {
		m["isolation"], m["workspace_id"] = r.Isolation, r.WorkspaceID
	}
	return m
}

// PingSandbox has the time of inactivity begin anew.
func (a *Agent) PingSandbox(ctx context.Context, req *connect.Request[pb.PingSandboxRequest]) (*connect.Response[pb.PingSandboxResponse], error) {
	const op = "ping sandbox"
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	used, err := s.use(ctx)
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	defer used()
	if err := a.needRunning(s); err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	return connect.NewResponse(&pb.PingSandboxResponse{}), nil
}
