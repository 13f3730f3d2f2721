package serve

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/secret"
)

type identityKey struct{}

// identity returns the sender of a request.
func identity(ctx context.Context) control.Identity {
	i, _ := ctx.Value(identityKey{}).(control.Identity)
	return i
}

// Identify returns the sender of a request. A program sends an API key in X-API-Key, or an API key
// or a session token in Authorization. A browser sends the cookie of a session. Identify fails with
// rate_limited if the sender sends too many requests.
func (s *Server) Identify(r *http.Request) (control.Identity, error) {
	i, err := s.sender(r)
	if limited := s.limit(senderOf(i, r)); limited != nil {
		return control.Identity{}, limited
	}
	return i, err
}

func (s *Server) sender(r *http.Request) (control.Identity, error) {
	if key := r.Header.Get(keyHeader); key != "" {
		return s.control.KeyIdentity(r.Context(), secret.New(key), address(r))
	}
	if token, ok := bearer(r); ok {
		if control.IsKey(token) {
			return s.control.KeyIdentity(r.Context(), token, address(r))
		}
		return s.control.SessionIdentity(r.Context(), token, address(r))
	}
	if token, ok := sessionToken(r); ok {
		return s.control.SessionIdentity(r.Context(), token, address(r))
	}
	return control.Identity{}, fault.Newf(fault.Permission, "%w: the request has no API key and no session", control.ErrUnauthenticated).
		WithHint("send an API key in the header " + keyHeader + ", or log in")
}

// hasKey reports whether a request has a key or a token in a header. Browsers add only cookies, and
// passwords for HTTP authentication, automatically. So another site can't send such a request.
func hasKey(r *http.Request) bool {
	_, ok := bearer(r)
	return ok || r.Header.Get(keyHeader) != ""
}

func bearer(r *http.Request) (secret.Value, bool) {
	return control.Bearer(r.Header.Get("Authorization"))
}

// authenticate refuses requests whose sender is unknown or does not have the role that the
// operation needs. Operations without security are open.
func (s *Server) authenticate(ctx huma.Context, next func(huma.Context)) {
	o := ctx.Operation()
	if len(o.Security) == 0 {
		next(ctx)
		return
	}
	r, _ := humago.Unwrap(ctx)
	if authenticatesByFrame(o, r) {
		next(ctx)
		return
	}
	role, _ := o.Metadata[need].(store.Role)
	i, err := s.allowed(r, role)
	if err == nil && o.Metadata[needsUser] != nil && i.Type != store.ActorUser {
		err = fault.Newf(fault.Permission, "an API key can't do this").WithHint("log in with a password or a login link")
	}
	if err != nil {
		s.write(ctx, err)
		return
	}
	if o.Metadata[isStream] == nil {
		end, ok := s.inProgress.add(i.TeamID, maxInProgress)
		if !ok {
			s.write(ctx, rateLimited(time.Second, "the team has too many requests in progress"))
			return
		}
		defer end()
	}
	if role == store.RoleViewer && passive.Marked(r) { // other operations change something, which counts as use
		ctx = huma.WithContext(ctx, passive.Context(ctx.Context()))
	}
	next(huma.WithValue(ctx, identityKey{}, i))
}

// need is the role that an operation needs. It is part of the operation's metadata, so that every
// operation states it, and tests can try each operation with each role.
const need = "role"

// needsUser is the metadata key of operations that need a session of a user.
const needsUser = "user"

// byUser marks an operation that can't be called with an API key.
func byUser(o *huma.Operation) { o.Metadata[needsUser] = true }

// withoutLogin marks an operation that is open to everybody.
func withoutLogin(o *huma.Operation) { o.Security, o.Metadata = nil, nil }

// cookieName is the name of the cookie of a session without TLS, see [nameOfCookie].
const cookieName = "pyro_session"

// nameOfCookie returns the name of a cookie for the connection of a request. Browsers let no other
// host set a cookie with the prefix __Host-, but they accept it only over TLS.
func nameOfCookie(r *http.Request, name string) string {
	if secure(r) {
		return "__Host-" + name
	}
	return name
}

// newCookie returns a cookie that scripts can't read. With an empty value, it removes the cookie.
func newCookie(r *http.Request, name, value string) *http.Cookie {
	c := &http.Cookie{Name: nameOfCookie(r, name), Value: value, Path: "/", HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

func sessionToken(r *http.Request) (secret.Value, bool) {
	c, err := r.Cookie(nameOfCookie(r, cookieName))
	if err != nil {
		return secret.Value{}, false
	}
	return secret.New(c.Value), true
}

// presentToken returns the session token of a request.
func presentToken(r *http.Request) secret.Value {
	token, ok := bearer(r)
	if !ok {
		token, _ = sessionToken(r)
	}
	return token
}

// sessionCookie returns the cookie of a session.
func sessionCookie(r *http.Request, token secret.Value, expires time.Time) *http.Cookie {
	c := newCookie(r, cookieName, token.Reveal())
	c.Expires = expires
	return c
}

// secure reports whether the client uses TLS, with this server or with a proxy on this host.
func secure(r *http.Request) bool {
	return r.TLS != nil || fromProxy(r) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// fromProxy reports whether a proxy on this host can have sent a request.
func fromProxy(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// address returns the address of the client, for the audit log.
func address(r *http.Request) string {
	if fromProxy(r) {
		forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if ip := net.ParseIP(strings.TrimSpace(forwarded[len(forwarded)-1])); ip != nil { // the last entry is the proxy's
			return ip.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// checkSender refuses cross-site requests of browsers. It allows requests with a key or a token.
func (s *Server) checkSender(r *http.Request) error {
	if hasKey(r) {
		return nil
	}
	if !s.knowsHost(r.Host) {
		return refusal(http.StatusMisdirectedRequest, "this server does not have the name "+fault.Printable(r.Host), "use http://localhost, or send an API key")
	}
	if err := s.crossOrigin.Check(r); err != nil {
		return fault.Newf(fault.Permission, "another site sent this request: %w", err)
	}
	return nil
}

// knowsHost reports whether a Host header names this server. Other names can belong to a hostile
// site whose name resolves to this host.
func (s *Server) knowsHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip := net.ParseIP(name); ip != nil {
		return true // an address can't be rebound
	}
	return name == "localhost" || slices.Contains(s.hosts, name)
}
