package remote

import (
	"context"
	"io"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// WatchFolders watches 1 to 64 folders of the machine, at absolute paths. It calls the function
// changed with 0 when it watches them, and then with a set of folders that have changed: bit N
// stands for paths[N]. A later call with 0 means that changes may have been missed. The call does
// not count as activity. It never returns nil: a pause ends it with the kind Unavailable.
func (c *Client) WatchFolders(ctx context.Context, paths []string, changed func(folders uint64) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	req := &supervisorv1.WatchFoldersRequest{}
	for _, p := range paths {
		req.Paths = append(req.Paths, []byte(p))
	}
	stream, err := c.rpc.WatchFolders(ctx, connect.NewRequest(req))
	if err != nil {
		return fromWire(ctx, err)
	}
	defer stream.Close()
	for stream.Receive() {
		if err := changed(stream.Msg().Changed); err != nil {
			return err
		}
	}
	if err = stream.Err(); err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fromWire(ctx, err)
}
