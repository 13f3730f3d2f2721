package serve

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

func (s *Server) bindWatch(base string) {
	bindSocket(s, operation(http.MethodGet, "/v1/"+base+"/{id}/watch", base+"-watch", "Watch the status, the last use and folders of a sandbox over a WebSocket", store.RoleViewer),
		func(in *ByID) string { return in.ID }, s.watchSandbox)
}

// watchSandbox sends the status and the last use of a sandbox, and each change of them. It also
// sends changes of the folders that the client names. It does not count as use of the sandbox.
func (s *Server) watchSandbox(c *socket, in *ByID) error {
	client, err := s.control.Client(c.ctx, c.by.Actor, in.ID)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	watched := &folders{socket: c, host: client, id: in.ID, runs: make(chan struct{}, 1)}
	defer watched.end()
	c.run(stop, func() error {
		stream, err := client.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{SandboxId: in.ID}))
		if err != nil {
			return control.FromHost(err)
		}
		defer stream.Close()
		for stream.Receive() {
			m := stream.Msg()
			if m.Synced {
				continue
			}
			e := event{Type: "state", Status: m.Status}
			if m.LastActiveAtUnix > 0 {
				e.ActiveAt = time.Unix(m.LastActiveAtUnix, 0).UTC().Format(time.RFC3339)
			}
			if err := c.send(e); err != nil {
				return err
			}
			switch m.Status {
			case "": // it was removed
				return nil
			case "running":
				watched.running()
			}
		}
		return control.FromHost(cmp.Or(stream.Err(), io.ErrUnexpectedEOF))
	}, func(f frame) error {
		if f.Type != "folders" {
			return onlyStop(f)
		}
		return watched.watch(f.Paths)
	})
	return nil
}
