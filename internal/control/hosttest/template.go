package hosttest

import (
	"context"

	"connectrpc.com/connect"

	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// templateSize is the size of every template, in bytes.
const templateSize = 1 << 20

// Templates returns the IDs of the sandboxes that became templates, by template ID.
func (h *Host) Templates() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]string{}
	for id, b := range h.templates {
		all[id] = b.SandboxId
	}
	return all
}

// makeTemplate turns a sandbox into a template. It is idempotent.
func (h *Host) makeTemplate(sandbox, template string) error {
	b := h.sandboxes[sandbox]
	switch there := h.templates[template]; {
	case there != nil && there.SandboxId == sandbox && b == nil:
		return nil
	case there != nil:
		return failed(connect.CodeAlreadyExists, "a template with these IDs exists")
	case b == nil:
		return failed(connect.CodeNotFound, "there is no such sandbox")
	}
	h.templates[template] = b
	delete(h.sandboxes, sandbox)
	return nil
}

// CreateSnapshot implements the host agent's service.
func (h *Host) CreateSnapshot(ctx context.Context, req *connect.Request[pb.CreateSnapshotRequest]) (*connect.Response[pb.CreateSnapshotResponse], error) {
	err := h.do(ctx, "snapshot", func() error { return h.makeTemplate(req.Msg.SandboxId, req.Msg.TemplateId) })
	return connect.NewResponse(&pb.CreateSnapshotResponse{Name: req.Msg.Name, SizeBytes: templateSize}), err
}

// FlattenRootfs implements the host agent's service.
func (h *Host) FlattenRootfs(ctx context.Context, req *connect.Request[pb.FlattenRootfsRequest]) (*connect.Response[pb.FlattenRootfsResponse], error) {
	err := h.do(ctx, "flatten", func() error { return h.makeTemplate(req.Msg.SandboxId, req.Msg.TemplateId) })
	return connect.NewResponse(&pb.FlattenRootfsResponse{SizeBytes: templateSize}), err
}

// DeleteSnapshot implements the host agent's service.
func (h *Host) DeleteSnapshot(ctx context.Context, req *connect.Request[pb.DeleteSnapshotRequest]) (*connect.Response[pb.DeleteSnapshotResponse], error) {
	err := h.do(ctx, "delete snapshot", func() error {
		if h.templates[req.Msg.TemplateId] == nil {
			return failed(connect.CodeNotFound, "there is no such template")
		}
		for _, b := range h.sandboxes {
			if b.TemplateId == req.Msg.TemplateId {
				return failed(connect.CodeFailedPrecondition, "a sandbox uses it")
			}
		}
		delete(h.templates, req.Msg.TemplateId)
		return nil
	})
	return connect.NewResponse(&pb.DeleteSnapshotResponse{}), err
}
