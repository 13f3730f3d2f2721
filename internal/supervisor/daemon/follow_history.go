package daemon

import (
	"context"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// FollowHistory sends a message when commands have ended, and a last one when the supervisor ends. It does
// not count as an operation: neither a pause nor the end of the machine waits for a follower. Ends that
// come while a message is sent share the next message, so a slow follower holds up nothing.
func (s *server) FollowHistory(ctx context.Context, _ *connect.Request[supervisorv1.FollowHistoryRequest], stream *connect.ServerStream[supervisorv1.FollowHistoryResponse]) error {
	if err := s.daemon.released(ctx); err != nil {
		return err
	}
	for {
		changed := s.daemon.ends.changed() // before the message: the follower then reads the database
		if err := stream.Send(&supervisorv1.FollowHistoryResponse{}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.over:
			return stream.Send(&supervisorv1.FollowHistoryResponse{Over: true, Paused: s.daemon.left.Load()})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
