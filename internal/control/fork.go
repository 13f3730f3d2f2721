package control

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// Fork describes a copy of a sandbox.
type Fork struct {
	Live     bool              // also the memory and the processes
	Snapshot string            // snapshot of the source; empty: its present state
	Metadata map[string]string // nil: the metadata of the source
	Key      string            // as in Create
	Request  string            // a digest of the request, for Key
}

// ForkSandbox creates a sandbox from a copy of another one, on the same host and with the same
// resources. It returns when the new sandbox runs. If it fails, there is no new sandbox.
//
// An interrupted fork ends like an interrupted creation: if the host has the new sandbox, Reconcile
// keeps it. Otherwise Reconcile removes the record, and a request with the same key forks again.
func (c *Control) ForkSandbox(ctx context.Context, by Actor, id string, req Fork) (b store.Sandbox, err error) {
	defer func() { c.audit(ctx, by, actFork, onSandbox, id, err) }()
	source, err := c.store.Sandbox(ctx, by.TeamID, id)
	if err != nil {
		return source, err
	}
	if req.Metadata == nil {
		req.Metadata = source.Metadata
	}
	return c.add(ctx, by, store.NewSandbox{Key: req.Key, Request: req.Request, Sandbox: store.Sandbox{
		ParentID: id, HostID: source.HostID, Template: source.Template, TemplateID: source.TemplateID, VCPUs: source.VCPUs, MemoryMB: source.MemoryMB,
		DiskMB: source.DiskMB, TimeoutSec: source.TimeoutSec, Metadata: req.Metadata,
	}}, func(ctx context.Context, h Host, b store.Sandbox) error {
		_, err := h.Client.ForkSandbox(ctx, connect.NewRequest(&hostv1.ForkSandboxRequest{SandboxId: id, NewSandboxId: b.ID, Live: req.Live, Snapshot: req.Snapshot}))
		return fault.Wrap(FromHost(err), "fork sandbox", id)
	})
}
