package serve

import (
	"context"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
)

type hostClient = control.HostClient

// client returns the client for the host of a sandbox of the sender's team.
func (s *Server) client(ctx context.Context, id string) (hostClient, error) {
	return s.control.Client(ctx, identity(ctx).Actor, id)
}

// call calls a method of the host agent of a sandbox. It returns the answer, or an error for the
// client.
func call[Req, Res any](ctx context.Context, s *Server, id string,
	method func(hostClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	return change(ctx, s, "", id, method, req)
}

// change is like call, for methods that change a sandbox. It records the action in the audit log.
func change[Req, Res any](ctx context.Context, s *Server, action, id string,
	method func(hostClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	var r *connect.Response[Res]
	c, err := s.client(ctx, id)
	if err == nil {
		r, err = method(c, ctx, connect.NewRequest(req))
		err = control.FromHost(err)
	}
	if action != "" {
		s.control.Record(ctx, identity(ctx).Actor, action, id, err)
	}
	if err != nil {
		return nil, newError(err)
	}
	return r.Msg, nil
}
