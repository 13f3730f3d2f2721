package serve

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/oauth2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// OIDC configures logins at an OpenID provider.
type OIDC struct {
	Issuer   string // a URL
	ClientID string
	Secret   secret.Value // secret of the client; can be empty
	Domains  []string     // users with a verified email in these domains need no invitation
}

const (
	oidcPath     = "/v1/auth/oidc"
	callbackPath = oidcPath + "/callback"
)

// Bounds of the calls to a provider.
const (
	providerTimeout = 10 * time.Second
	maxProviderBody = 1 << 20 // bytes
)

// attemptTime is the maximum time for a user to log in at the provider.
const attemptTime = 10 * time.Minute

// provider is an OpenID provider.
type provider struct {
	OIDC
	client *http.Client

	mu         sync.Mutex
	discovered *oidc.Provider // nil: not yet
}

func newProvider(o OIDC) *provider {
	return &provider{OIDC: o, client: &http.Client{Transport: boundedBodies{http.DefaultTransport}, Timeout: providerTimeout}}
}

// discover returns the provider's configuration and caches it. If the provider does not answer, the
// next call asks again.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.discovered
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, fault.Newf(fault.Unavailable, "the OpenID provider does not answer: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered = found
	return found, nil
}

func (p *provider) config(from *oidc.Provider, r *http.Request) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.Secret.Reveal(), Endpoint: from.Endpoint(), RedirectURL: origin(r) + callbackPath,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
}

// boundedBodies limits the size of answers.
type boundedBodies struct{ http.RoundTripper }

func (b boundedBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxProviderBody), answer.Body}
	}
	return answer, err
}

// attempt is a login in progress. Only the user's browser stores it, in a cookie.
type attempt struct {
	state, nonce, verifier string
}

// attemptCookie is the name of the cookie of an attempt without TLS, see [nameOfCookie].
const attemptCookie = "pyro_oidc"

func (a attempt) cookie(r *http.Request) *http.Cookie {
	c := newCookie(r, attemptCookie, a.state+"."+a.nonce+"."+a.verifier)
	c.MaxAge = int(attemptTime.Seconds())
	return c
}

func attemptOf(r *http.Request) (a attempt, ok bool) {
	c, err := r.Cookie(nameOfCookie(r, attemptCookie))
	if err != nil {
		return a, false
	}
	parts := strings.Split(c.Value, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return a, false
	}
	return attempt{parts[0], parts[1], parts[2]}, true
}

// Methods are the ways to log in.
type Methods struct {
	Password bool `json:"password"`
	OIDC     bool `json:"oidc" doc:"A browser can log in at /v1/auth/oidc"`
}

func (s *Server) bindOIDC(o *OIDC) {
	huma.Register(s.api, operation(http.MethodGet, "/v1/auth/methods", "auth-methods", "Return the ways to log in", "", withoutLogin),
		func(context.Context, *struct{}) (*body[Methods], error) {
			return &body[Methods]{Methods{true, o != nil}}, nil
		})
	if o == nil {
		return
	}
	p := newProvider(*o)
	s.mux.HandleFunc("GET "+oidcPath, func(w http.ResponseWriter, r *http.Request) {
		if err := s.beginOIDC(w, r, p); err != nil {
			writeError(w, newError(err))
		}
	})
	s.mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, newCookie(r, attemptCookie, ""))
		v, err := s.endOIDC(r, p)
		if err != nil {
			writeError(w, newError(err))
			return
		}
		http.SetCookie(w, sessionCookie(r, v.Token, v.Expires))
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
}

// beginOIDC sends a browser to the provider.
func (s *Server) beginOIDC(w http.ResponseWriter, r *http.Request, p *provider) error {
	if err := s.limit(senderOf(control.Identity{}, r)); err != nil {
		return err
	}
	from, err := p.discover(r.Context())
	if err != nil {
		return err
	}
	a := attempt{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	http.SetCookie(w, a.cookie(r))
	http.Redirect(w, r, p.config(from, r).AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)), http.StatusSeeOther)
	return nil
}

// endOIDC handles the redirect from the provider. It begins a session of the user.
func (s *Server) endOIDC(r *http.Request, p *provider) (v control.Session, err error) {
	a, ok := attemptOf(r)
	q := r.URL.Query()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(a.state), []byte(q.Get("state"))) != 1:
		return v, fault.Newf(fault.Permission, "this browser has not started this login, or the login has expired").WithHint("log in again")
	case q.Get("error") != "":
		return v, fault.Newf(fault.Permission, "the OpenID provider refused the login: %.200q", q.Get("error")+" "+q.Get("error_description")).WithHint("log in again")
	}
	err = s.limitLogin(r, "", func() (err error) {
		e, err := p.exchange(r, a, q.Get("code"))
		if err != nil {
			return err
		}
		v, err = s.control.LoginExternal(r.Context(), e, p.Domains, address(r))
		return err
	})
	return v, err
}

// exchange exchanges a code of the provider for the user's account.
func (p *provider) exchange(r *http.Request, a attempt, code string) (e control.External, err error) {
	from, err := p.discover(r.Context())
	if err != nil {
		return e, err
	}
	ctx := oidc.ClientContext(r.Context(), p.client)
	token, err := p.config(from, r).Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		return e, refusedBy("exchange the code", err)
	}
	text, _ := token.Extra("id_token").(string)
	verified, err := from.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, text)
	if err != nil {
		return e, refusedBy("check the ID token", err)
	}
	var c claims
	if err := verified.Claims(&c); err != nil {
		return e, refusedBy("read the ID token", err)
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(a.nonce)) != 1:
		return e, refusedBy("check the ID token", fmt.Errorf("it belongs to another login"))
	case len(verified.Audience) > 1 && c.Party != p.ClientID:
		return e, refusedBy("check the ID token", fmt.Errorf("it is for another client"))
	}
	if c.Email == "" && from.UserInfoEndpoint() != "" {
		info, err := from.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject != verified.Subject {
			err = fmt.Errorf("it is about another user")
		}
		if err == nil {
			err = info.Claims(&c)
		}
		if err != nil {
			return e, refusedBy("read the user's information", err)
		}
	}
	return control.External{
		External: store.External{Issuer: verified.Issuer, Subject: verified.Subject}, Email: c.Email, Verified: c.Verified == true || c.Verified == "true", Name: c.Name,
	}, nil
}

// claims are the claims about a user in the provider's ID token.
type claims struct {
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some providers send a text
	Name     string `json:"name"`
	Party    string `json:"azp"` // the client that the token was issued for
}

func refusedBy(step string, err error) error {
	return fault.Newf(fault.Permission, "log in with OpenID: %s: %.300s", step, err).WithHint("log in again")
}
