package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// ListSandboxes lists all sandboxes. It reports each automatic pause until the client acknowledges
// the report.
func (a *Agent) ListSandboxes(_ context.Context, req *connect.Request[pb.ListSandboxesRequest]) (*connect.Response[pb.ListSandboxesResponse], error) {
	a.reporting.Lock()
	defer a.reporting.Unlock()
	if err := a.acknowledge(req.Msg.AutoPausedUntil); err != nil {
		return nil, fault.Wrap(err, "list sandboxes", "")
	}
	m := &pb.ListSandboxesResponse{}
	for _, s := range a.all() {
		status, err := a.cachedStatus(s)
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
			m.AutoPausedCursor = max(m.AutoPausedCursor, a.reportSequence(s))
		} else {
			s.report = 0
		}
	}
	return connect.NewResponse(m), nil
}

// metadataOf returns additional information about a sandbox, which the control plane can show.
func metadataOf(r record) map[string]string {
	m := map[string]string{"environment": r.Environment}
	if r.WorkspaceID != "" {
		m["isolation"], m["workspace_id"] = r.Isolation, r.WorkspaceID
	}
	return m
}

// PingSandbox restarts the inactivity timeout of a sandbox.
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
