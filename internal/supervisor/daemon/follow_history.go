package daemon

import (
	"context"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// FollowHistory sends a message when commands have ended, and a last message when the supervisor
// ends. It does not count as an operation: neither a pause nor the end of the machine waits for a
// follower. If more commands end while a message is sent, they share the next message. So a slow
// follower delays nothing.
func (s *server) FollowHistory(ctx context.Context, _ *connect.Request[supervisorv1.FollowHistoryRequest], stream *connect.ServerStream[supervisorv1.FollowHistoryResponse]) error {
	if err := s.daemon.released(ctx); err != nil {
		return err
	}
	for {
		changed := s.daemon.ends.changed() // called before Send, because the follower reads the database after it has received the message
		if err := stream.Send(&supervisorv1.FollowHistoryResponse{}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.over:
			return stream.Send(&supervisorv1.FollowHistoryResponse{Over: true, Paused: s.daemon.suspended.Load()})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
