package client

import (
	"context"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// watchPause is the shortest time between two calls of the function changed. The agent waits longer
// between two messages, so this limits only a hostile machine.
const watchPause = 250 * time.Millisecond

// WatchFolders watches 1 to 64 folders of the machine, at absolute paths. It calls the function
// changed with 0 when it watches them, and then with a set of folders that have changed: bit N
// stands for paths[N]. If the link breaks, the next call has 0 again, and changes meanwhile are not
// reported. WatchFolders never returns nil. Exhausted: the machine can't watch more folders.
func (c *Client) WatchFolders(ctx context.Context, paths []string, changed func(folders uint64) error) error {
	req := &agentv1.WatchFoldersRequest{}
	for _, p := range paths {
		req.Paths = append(req.Paths, []byte(p))
	}
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		stream, err := s.rpc.WatchFolders(ctx, connect.NewRequest(req))
		if err != nil {
			return err
		}
		defer stream.Close()
		for ready := false; stream.Receive(); ready = true {
			folders := stream.Msg().Changed
			if ready == (folders == 0) || folders&^(1<<len(paths)-1) != 0 {
				return corrupt("it reports changes of the folders %b", folders)
			}
			if err := changed(folders); err != nil {
				return fmt.Errorf("%w: %w", errWriter, err)
			}
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := stream.Err(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	return fault.Wrap(err, "watch folders", "")
}
