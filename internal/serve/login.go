package serve

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Login is the answer to a login.
type Login struct {
	Token  string `json:"token" doc:"Send it in the header Authorization: Bearer. Browsers get a cookie instead"`
	UserID string `json:"user_id"`
	TeamID string `json:"team_id"`
	Email  string `json:"email"`
	Name   string `json:"name"`
}

// withRequest stores the HTTP request for operations that need more than their input.
type withRequest struct {
	http *http.Request
}

// Resolve implements huma.Resolver.
func (w *withRequest) Resolve(ctx huma.Context) []error {
	w.http, _ = humago.Unwrap(ctx)
	return nil
}

// withCookie is an answer that sets a cookie.
type withCookie[T any] struct {
	Cookie string `header:"Set-Cookie"`
	Body   T
}

func (s *Server) bindLogin() {
	huma.Register(s.api, operation(http.MethodPost, "/v1/auth/login", "login", "Log in with a password", "", withoutLogin),
		func(ctx context.Context, in *struct {
			withRequest
			Body struct {
				Email    string `json:"email" minLength:"1" maxLength:"320"`
				Password string `json:"password" minLength:"1" maxLength:"1024"`
			}
		}) (*withCookie[Login], error) {
			var v control.Session
			err := s.limitLogin(in.http, strings.ToLower(in.Body.Email), func() (err error) {
				v, err = s.control.Login(ctx, in.Body.Email, secret.New(in.Body.Password), address(in.http))
				return err
			})
			return s.loggedIn(ctx, in.http, v, err)
		})
	huma.Register(s.api, operation(http.MethodPost, "/v1/auth/link", "login-link", "Log in with the token of a login link", "", withoutLogin),
		func(ctx context.Context, in *struct {
			withRequest
			Body struct {
				Token string `json:"token" minLength:"1" maxLength:"256"`
			}
		}) (*withCookie[Login], error) {
			v, err := s.loginByLink(in.http, in.Body.Token)
			return s.loggedIn(ctx, in.http, v, err)
		})
	huma.Register(s.api, operation(http.MethodPost, "/v1/auth/logout", "logout", "End the session", store.RoleViewer, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *withRequest) (*withoutBody, error) {
			return withoutSession(in.http, s.control.Logout(ctx, presentToken(in.http)))
		})
}

func (s *Server) loginByLink(r *http.Request, token string) (v control.Session, err error) {
	err = s.limitLogin(r, "", func() (err error) {
		v, err = s.control.LoginByLink(r.Context(), secret.New(token), address(r))
		return err
	})
	return v, err
}

func (s *Server) loggedIn(ctx context.Context, r *http.Request, v control.Session, err error) (*withCookie[Login], error) {
	if err != nil {
		return nil, newError(err)
	}
	u, err := s.control.User(ctx, v.Actor)
	if err != nil {
		return nil, newError(err)
	}
	return &withCookie[Login]{
		sessionCookie(r, v.Token, v.Expires).String(), Login{v.Token.Reveal(), u.ID, v.TeamID, u.Email, u.Name},
	}, nil
}
