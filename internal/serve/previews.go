package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/preview"
)

// Port describes a TCP port of a sandbox that a browser can open.
type Port struct {
	Port   int    `json:"port"`
	Public bool   `json:"public" doc:"Everybody who knows the address can open it"`
	URL    string `json:"url" example:"http://8000-cl-123.localhost:8080/"`
}

// Ports are the ports of a sandbox.
type Ports struct {
	Ports []Port `json:"ports"`
}

// PortLink is a link to a port. It lets everybody open the port.
type PortLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// ByPort contains the path parameters of requests about a port.
type ByPort struct {
	ByID
	withRequest
	Port int `path:"port" minimum:"1" maximum:"65535"`
}

func (s *Server) newPort(r *http.Request, p store.PreviewPort) Port {
	return Port{p.Port, p.Public, s.previews.URL(r, p.SandboxID, p.Port)}
}

func (s *Server) bindPreviews(base string) {
	ports := "/v1/" + base + "/{id}/ports"
	one := ports + "/{port}"
	huma.Register(s.api, operation(http.MethodGet, ports, base+"-ports-list", "List the ports that are public or have links", store.RoleViewer),
		func(ctx context.Context, in *struct {
			ByID
			withRequest
		}) (*body[Ports], error) {
			found, err := s.control.Previews(ctx, identity(ctx).Actor, in.ID)
			if err != nil {
				return nil, newError(err)
			}
			return &body[Ports]{Ports{itemsOf(found, func(p store.PreviewPort) Port { return s.newPort(in.http, p) })}}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, one, base+"-ports-get", "Return the address of a port", store.RoleViewer),
		func(ctx context.Context, in *ByPort) (*body[Port], error) {
			p, err := s.control.Preview(ctx, identity(ctx).Actor, in.ID, in.Port)
			if err != nil {
				return nil, newError(err)
			}
			return &body[Port]{s.newPort(in.http, p)}, nil
		})
	huma.Register(s.api, operation(http.MethodPut, one, base+"-ports-set", "Make a port public or private. Links work in both cases", store.RoleMember),
		func(ctx context.Context, in *struct {
			ByPort
			Body struct {
				Public bool `json:"public"`
			}
		}) (*body[Port], error) {
			if err := s.control.SetPreview(ctx, identity(ctx).Actor, in.ID, in.Port, in.Body.Public); err != nil {
				return nil, newError(err)
			}
			return &body[Port]{s.newPort(in.http, store.PreviewPort{SandboxID: in.ID, Port: in.Port, Public: in.Body.Public})}, nil
		})
	huma.Register(s.api, operation(http.MethodDelete, one, base+"-ports-reset", "Make a port private and end its links", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByPort) (*struct{}, error) {
			return done(s.control.ResetPreview(ctx, identity(ctx).Actor, in.ID, in.Port))
		})
	huma.Register(s.api, operation(http.MethodPost, one+"/link", base+"-ports-link", "Make a link to a port that works without a login until it expires", store.RoleMember, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			ByPort
			Body struct {
				ExpiresIn int64 `json:"expires_in_sec,omitempty" default:"3600" minimum:"1" maximum:"604800"`
			}
		}) (*body[PortLink], error) {
			token, expires, err := s.control.NewPreviewLink(ctx, identity(ctx).Actor, in.ID, in.Port, time.Duration(in.Body.ExpiresIn)*time.Second)
			if err != nil {
				return nil, newError(err)
			}
			return &body[PortLink]{PortLink{preview.LinkURL(s.previews.URL(in.http, in.ID, in.Port), token), expires}}, nil
		})
}

// openPreview sends a browser with a session to a preview.
func (s *Server) openPreview(w http.ResponseWriter, r *http.Request) {
	token, _ := sessionToken(r)
	s.previews.Open(w, r, token)
}
