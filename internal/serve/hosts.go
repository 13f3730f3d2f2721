package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Host describes a host of sandboxes.
type Host struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	Type            string    `json:"type" enum:"regular,byoc"`
	Status          string    `json:"status" enum:"pending,online,offline,draining,unreachable"`
	LastHeartbeatAt time.Time `json:"last_heartbeat_at" doc:"When it last answered"`
	CreatedBy       string    `json:"created_by"`
	CreatedAt       time.Time `json:"created_at"`
	UpdatedAt       time.Time `json:"updated_at"`
}

func newHost(h control.HostState) Host {
	n := Host{ID: h.ID, Name: h.Name, Type: "regular", Status: "unreachable", LastHeartbeatAt: h.SeenAt, CreatedBy: store.ActorSystem, CreatedAt: h.CreatedAt, UpdatedAt: h.SeenAt}
	if h.Online {
		n.Status = "online"
	}
	return n
}

func (s *Server) bindHosts() {
	const path = "/v1/hosts"
	huma.Register(s.api, operation(http.MethodGet, path, "hosts-list", "List the hosts of the server", store.RoleViewer, byUser),
		func(ctx context.Context, _ *struct{}) (*body[[]Host], error) {
			found, err := s.control.HostStates(ctx)
			return listed(found, err, newHost)
		})
	huma.Register(s.api, operation(http.MethodGet, path+"/{id}", "hosts-get", "Describe a host", store.RoleViewer, byUser),
		func(ctx context.Context, in *ByID) (*body[Host], error) {
			found, err := s.control.HostStates(ctx)
			if err != nil {
				return nil, newError(err)
			}
			for _, h := range found {
				if h.ID == in.ID {
					return &body[Host]{newHost(h)}, nil
				}
			}
			return nil, newError(fault.New(fault.NotFound, "find host", fault.Printable(in.ID), "no such host"))
		})
}
