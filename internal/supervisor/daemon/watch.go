package daemon

import (
	"context"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// WatchFolders reports changes of folders. It does not count as an operation. It ends when new
// operations are refused, so it delays neither a pause nor the end of the machine.
func (s *server) WatchFolders(ctx context.Context, req *connect.Request[supervisorv1.WatchFoldersRequest], stream *connect.ServerStream[supervisorv1.WatchFoldersResponse]) error {
	if err := s.daemon.released(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	accepting := s.accepting
	s.mu.Unlock()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(accepting, func() { end(context.Cause(accepting)) })()
	var paths []string
	for _, p := range req.Msg.Paths {
		paths = append(paths, string(p))
	}
	return s.daemon.machine.Agent.WatchFolders(ctx, paths, func(folders uint64) error {
		return stream.Send(&supervisorv1.WatchFoldersResponse{Changed: folders})
	})
}
