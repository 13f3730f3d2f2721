package hostagent

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// WatchFolders reports changes of folders of a running sandbox. It does not mark the sandbox as
// active, so it does not delay a pause.
func (h hostService) WatchFolders(ctx context.Context, req *connect.Request[hostpb.WatchFoldersRequest], to *connect.ServerStream[hostpb.WatchFoldersResponse]) error {
	const op = "watch folders"
	a, paths := h.agent, req.Msg.Paths
	for i := range paths {
		if err := checkPath(op, &paths[i]); err != nil {
			return err
		}
	}
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return fault.Wrap(err, op, "")
	}
	if err := a.needRunning(s); err != nil {
		return fault.Wrap(err, op, s.id())
	}
	ctx, end := a.streamContext(ctx)
	defer end(nil)
	err = a.options.Machines.WatchFolders(ctx, s.record().WorkspaceID, paths, func(folders uint64) error {
		return to.Send(&hostpb.WatchFoldersResponse{Changed: folders})
	})
	return fault.Wrap(err, op, s.id())
}
