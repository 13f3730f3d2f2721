package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// ForkSandbox creates a sandbox from a copy of another one. If the new sandbox exists, it returns
// its status.
func (h hostService) ForkSandbox(ctx context.Context, req *connect.Request[pb.ForkSandboxRequest]) (*connect.Response[pb.ForkSandboxResponse], error) {
	const op = "fork sandbox"
	a, m := h.agent, req.Msg
	if err := checkID(m.NewSandboxId); err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	made, err := a.existing(ctx, m.NewSandboxId)
	if fault.KindOf(err) == fault.NotFound {
		var source *sandbox
		source, err = a.find(m.SandboxId)
		if err != nil {
			return nil, fault.Wrap(err, op, "")
		}
		if made, err = a.fork(ctx, source, m.NewSandboxId, Fork{Live: m.Live, Snapshot: m.Snapshot}); err != nil {
			return nil, fault.Wrap(err, op, source.id())
		}
	}
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	status, err := a.status(made)
	if err != nil {
		return nil, fault.Wrap(err, op, made.id())
	}
	return connect.NewResponse(&pb.ForkSandboxResponse{Status: status}), nil
}

// existing returns the sandbox with an ID. If it is being created, existing waits.
func (a *Agent) existing(ctx context.Context, id string) (*sandbox, error) {
	s, err := a.find(id)
	if err != nil {
		return nil, err
	}
	done, err := s.lockExisting(ctx)
	if err == nil {
		done()
	}
	return s, err
}

// fork creates a sandbox from a copy of another one, with the same resources, policy and variables.
// The source is active during the fork.
func (a *Agent) fork(ctx context.Context, source *sandbox, id string, fork Fork) (*sandbox, error) {
	end, err := source.use(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	from := source.record()
	if from.WorkspaceID == "" {
		return nil, notRunning(statusPending)
	}
	want := from
	want.SandboxID, want.WorkspaceID, want.CreationID, want.Inactive = id, "", newID(), false
	want.CreatedAt = a.options.clock().UTC()
	want.LastActive = want.CreatedAt
	return a.create(ctx, want, func(ctx context.Context, spec Spec) (Created, error) {
		made, err := a.options.Machines.Fork(ctx, from.WorkspaceID, fork, spec)
		if err != nil {
			err = sandboxError(err, from)
		}
		return made, err
	})
}
