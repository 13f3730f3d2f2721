package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Key describes an API key.
type Key struct {
	ID        string     `json:"id"`
	TeamID    string     `json:"team_id"`
	Name      string     `json:"name"`
	Prefix    string     `json:"key_prefix"`
	Scopes    []string   `json:"scopes" doc:"Empty: everything that a member is allowed to do"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Absent: never"`
	LastUsed  *time.Time `json:"last_used,omitempty"`
	Key       string     `json:"key,omitempty" doc:"The key itself; only in the response to its creation"`
}

func newKey(k store.Key) Key {
	return Key{k.ID, k.TeamID, k.Name, k.Prefix, append([]string{}, k.Scopes...), k.CreatedAt, optional(k.ExpiresAt), optional(k.LastUsedAt), ""}
}

func (s *Server) bindKeys() {
	const path = "/v1/api-keys"
	huma.Register(s.api, operation(http.MethodPost, path, "keys-create", "Create an API key", store.RoleMember, byUser, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			Body struct {
				Name      string    `json:"name,omitempty" default:"Unnamed API Key" maxLength:"100"`
				Scopes    []string  `json:"scopes,omitempty" enum:"read,write"`
				ExpiresAt time.Time `json:"expires_at,omitempty"`
			}
		}) (*body[Key], error) {
			by := identity(ctx)
			k, text, err := s.control.NewKey(ctx, by.Actor, in.Body.Name, in.Body.Scopes, in.Body.ExpiresAt)
			if err != nil {
				return nil, newError(err)
			}
			made := newKey(k)
			made.Key = text.Reveal()
			return &body[Key]{made}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, path, "keys-list", "List the API keys", store.RoleViewer, byUser),
		func(ctx context.Context, _ *struct{}) (*body[[]Key], error) {
			found, err := s.control.Keys(ctx, identity(ctx).Actor)
			return listed(found, err, newKey)
		})
	huma.Register(s.api, operation(http.MethodDelete, path+"/{id}", "keys-delete", "Delete an API key, which stops working immediately; only admins can delete keys of others", store.RoleMember, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByID) (*struct{}, error) {
			return done(s.control.RemoveKey(ctx, identity(ctx), in.ID))
		})
}
