package remote

import (
	"context"
	"io"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// FollowHistory calls the function changed immediately. It calls changed again each time that
// commands have ended and their ends are in the database. FollowHistory returns when the supervisor
// ends, and reports whether the supervisor paused the machine. The caller then reads the history
// once more.
func (c *Client) FollowHistory(ctx context.Context, changed func() error) (paused bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := c.rpc.FollowHistory(ctx, connect.NewRequest(&supervisorv1.FollowHistoryRequest{}))
	if err != nil {
		return false, fromWire(ctx, err)
	}
	defer stream.Close()
	for stream.Receive() {
		if m := stream.Msg(); m.Over {
			return m.Paused, nil
		}
		if err := changed(); err != nil {
			return false, err
		}
	}
	err = stream.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return false, fromWire(ctx, err)
}
