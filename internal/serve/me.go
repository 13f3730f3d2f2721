package serve

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Me describes the user of a session.
type Me struct {
	UserID      string   `json:"user_id"`
	TeamID      string   `json:"team_id" doc:"The team for which the session acts"`
	Role        string   `json:"role" enum:"owner,admin,member,viewer" doc:"The role in this team"`
	Name        string   `json:"name"`
	Email       string   `json:"email"`
	HasPassword bool     `json:"has_password"`
	Providers   []string `json:"providers" doc:"oidc, if the user has logged in with OpenID Connect"`
	IsAdmin     bool     `json:"is_admin" doc:"The user is an operator of the server: an owner of the first team"`
}

// Name is the name of a user or a team.
type Name struct {
	Name string `json:"name" minLength:"1" maxLength:"100"`
}

// trimmed returns the name without white space around it. It fails if nothing is left.
func (n Name) trimmed() (string, error) {
	text := strings.TrimSpace(n.Name)
	if text == "" {
		return "", newError(fault.Newf(fault.Invalid, "the name is empty"))
	}
	return text, nil
}

// withoutBody is an answer without a body that can set a cookie.
type withoutBody struct {
	Cookie string `header:"Set-Cookie"`
}

// withoutSession returns the answer to a request that ends the session.
func withoutSession(r *http.Request, err error) (*withoutBody, error) {
	if err != nil {
		return nil, newError(err)
	}
	return &withoutBody{newCookie(r, cookieName, "").String()}, nil
}

func (s *Server) bindMe() {
	const path = "/v1/me"
	huma.Register(s.api, operation(http.MethodGet, path, "me", "Describe the user of the session", store.RoleViewer, byUser),
		func(ctx context.Context, _ *struct{}) (*body[Me], error) {
			return s.me(ctx)
		})
	huma.Register(s.api, operation(http.MethodPatch, path, "me-update", "Change the name of the user", store.RoleViewer, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct{ Body Name }) (*struct{}, error) {
			name, err := in.Body.trimmed()
			if err != nil {
				return nil, err
			}
			return done(s.control.RenameUser(ctx, identity(ctx).Actor, name))
		})
	huma.Register(s.api, operation(http.MethodDelete, path, "me-delete", "Delete the user, with teams that have no other member", store.RoleViewer, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			withRequest
			Body struct {
				Confirmation string `json:"confirmation" maxLength:"320" doc:"The email of the user"`
			}
		}) (*withoutBody, error) {
			return withoutSession(in.http, s.control.DeleteUser(ctx, identity(ctx).Actor, in.Body.Confirmation))
		})
	huma.Register(s.api, operation(http.MethodPost, path+"/password", "me-password", "Change the password, which ends all sessions of the user", store.RoleViewer, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			withRequest
			Body struct {
				Current string `json:"current_password,omitempty" maxLength:"1024" doc:"Required if the user has a password"`
				New     string `json:"new_password" minLength:"8" maxLength:"1024"`
				Confirm string `json:"confirm_password,omitempty" maxLength:"1024" doc:"If present, it must equal new_password"`
			}
		}) (*withoutBody, error) {
			if in.Body.Confirm != "" && in.Body.Confirm != in.Body.New {
				return nil, newError(fault.Newf(fault.Invalid, "the passwords differ"))
			}
			by := identity(ctx).Actor
			return withoutSession(in.http, s.limitLogin(in.http, by.ID, func() error {
				return s.control.ChangePassword(ctx, by, secret.New(in.Body.Current), secret.New(in.Body.New))
			}))
		})
	huma.Register(s.api, operation(http.MethodPost, "/v1/auth/switch-team", "switch-team", "Replace the session with one for another team of the user", store.RoleViewer, byUser),
		func(ctx context.Context, in *struct {
			withRequest
			Body struct {
				TeamID string `json:"team_id" minLength:"1" maxLength:"64"`
			}
		}) (*withCookie[Login], error) {
			v, err := s.control.SwitchTeam(ctx, identity(ctx).Actor, presentToken(in.http), in.Body.TeamID)
			return s.loggedIn(ctx, in.http, v, err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/users/search", "users-search", "Find users by the beginning of their email", store.RoleAdmin, byUser),
		func(ctx context.Context, in *struct {
			Email string `query:"email" required:"true" minLength:"3" maxLength:"320" pattern:"@" doc:"The beginning of the email. It must include the @"`
		}) (*body[[]FoundUser], error) {
			found, err := s.control.SearchUsers(ctx, in.Email)
			return listed(found, err, func(u store.User) FoundUser { return FoundUser{u.ID, u.Email} })
		})
}

// FoundUser is a user that a search has found.
type FoundUser struct {
	UserID string `json:"user_id"`
	Email  string `json:"email"`
}

func (s *Server) me(ctx context.Context) (*body[Me], error) {
	i := identity(ctx)
	u, err := s.control.User(ctx, i.Actor)
	if err != nil {
		return nil, newError(err)
	}
	external, err := s.control.Providers(ctx, i.Actor)
	if err != nil {
		return nil, newError(err)
	}
	operator, err := s.control.Operator(ctx, i.Actor)
	if err != nil {
		return nil, newError(err)
	}
	providers := []string{}
	if len(external) > 0 {
		providers = append(providers, "oidc")
	}
	return &body[Me]{Me{u.ID, i.TeamID, string(i.Role), u.Name, u.Email, u.Password.Reveal() != "", providers, operator}}, nil
}
