package preview

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Names of cookies, paths and parameters that the guest never sees, and can't set.
const (
	cookieName       = "pyro_preview"
	secureCookieName = "__Host-pyro_preview" // browsers accept this name only from the host itself
	linkParameter    = "pyro_link"
	openPath         = "/.pyro/open" // where a browser exchanges a token for a cookie
	// PagePath is the path on the page's host that sends a browser with a session to a preview.
	PagePath = "/preview/open"
)

// The two kinds of content of the cookie.
const (
	loginKind = "s."
	linkKind  = "l."
)

// Options configure a Handler. All fields but Domains are required.
type Options struct {
	Control *control.Control
	Domains []string // domains in addition to localhost, in lower case
	Log     *slog.Logger
	Secure  func(*http.Request) bool   // reports whether the client uses TLS
	Address func(*http.Request) string // returns the address of the client
	// Proxied reports whether a request can come from a trusted proxy. The headers X-Forwarded-* of
	// other requests are ignored.
	Proxied func(*http.Request) bool
	// Limit reports whether a client may send another request now. If not, it returns how long the
	// client must wait. The actor is zero if the client has not proved that it may open a preview.
	Limit func(r *http.Request, by control.Actor) (wait time.Duration, ok bool)
}

// Handler serves the previews of all sandboxes.
type Handler struct {
	Options
	proxy     http.Handler
	transport *http.Transport
	streams   streams
}

// New returns a handler. The caller must call Close.
func New(o Options) *Handler {
	h := &Handler{Options: o}
	h.transport = h.newTransport()
	h.proxy = h.newProxy()
	h.streams.init()
	return h
}

// Port returns the port in a request's Host header. ok is false if the header contains no port of a
// sandbox.
func (h *Handler) Port(r *http.Request) (p Port, ok bool) { return ParseHost(r.Host, h.Domains) }

// Close closes idle connections and endless streams, such as WebSockets. It waits up to closeTime
// for clients to close their side.
func (h *Handler) Close() {
	h.streams.close()
	h.transport.CloseIdleConnections()
}

// Serve answers a request for the port p. p must be the result of Port for this request.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, p Port) {
	if isWebSocket(r) {
		w = upgrading{w, &h.streams}
	}
	if r.URL.Path == openPath {
		if h.limit(w, r, control.Actor{}) {
			h.exchange(w, r, p)
		}
		return
	}
	pass := h.pass(r)
	v, err := h.Control.Visit(r.Context(), p.ID, p.Number, pass)
	hasLink := r.URL.Query().Has(linkParameter)
	linked := hasLink && !v.LinkEnds.IsZero()
	if err == nil && !v.Anonymous && pass.Key.Reveal() == "" && !sameSandbox(r, p, h.Domains, linked) {
		stranger, failed := h.Control.Visit(r.Context(), p.ID, p.Number, control.PreviewPass{Address: pass.Address})
		if failed != nil {
			err = fault.Newf(fault.Permission, "another site sent this request")
		} else {
			v, linked = stranger, false // the login does not count, and a public port needs none
		}
	}
	if !h.limit(w, r, v.Actor) {
		return
	}
	if err != nil {
		h.refuse(w, r, p, pass, err)
		return
	}
	if linked {
		http.SetCookie(w, h.cookie(r, linkKind+pass.Link.Reveal(), v.LinkEnds))
	}
	if hasLink && isNavigation(r) { // scripts of a page can read its address
		clean := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: withoutLink(r.URL.RawQuery)}
		redirect(w, local(clean.String()))
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	ctx = context.WithValue(ctx, visitKey{}, &visit{port: p, visitor: v, end: end, hasSession: h.hasSession(r)})
	h.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// limit reports whether a client may send another request now. If not, it answers the request.
func (h *Handler) limit(w http.ResponseWriter, r *http.Request, by control.Actor) bool {
	wait, ok := h.Limit(r, by)
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int((max(wait, time.Second)+time.Second-1)/time.Second)))
		h.fail(w, r, http.StatusTooManyRequests, problem{Title: "Too many requests", Text: "This client sends more requests than previews accept.", Hint: "Wait a moment and try again."})
	}
	return ok
}

// sessionLength is the length of the token of a session.
const sessionLength = 26

// hasSession reports whether a request contains the token of a session as a bearer token. Such
// tokens are only valid for the API.
func (h *Handler) hasSession(r *http.Request) bool {
	token, ok := control.Bearer(r.Header.Get("Authorization"))
	if !ok || len(token.Reveal()) != sessionLength {
		return false
	}
	_, err := h.Control.SessionIdentity(r.Context(), token, "")
	return err == nil
}

// visit is a request that is allowed to reach a port.
type visit struct {
	port       Port
	visitor    control.Visitor
	end        context.CancelFunc // ends the request
	hasSession bool               // the header Authorization has the token of a session
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// pass returns the credentials of a request for a preview.
func (h *Handler) pass(r *http.Request) control.PreviewPass {
	p := control.PreviewPass{Address: h.Address(r), Link: secret.New(r.URL.Query().Get(linkParameter))}
	if key, ok := ownKey(r.Header); ok {
		p.Key = key
	}
	c, err := r.Cookie(h.cookieName(r))
	if err != nil {
		return p
	}
	if token, ok := strings.CutPrefix(c.Value, loginKind); ok {
		p.Cookie = secret.New(token)
	}
	if token, ok := strings.CutPrefix(c.Value, linkKind); ok && p.Link.Reveal() == "" {
		p.Link = secret.New(token)
	}
	return p
}

func (h *Handler) cookieName(r *http.Request) string {
	if h.Secure(r) {
		return secureCookieName
	}
	return cookieName
}

func (h *Handler) cookie(r *http.Request, value string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: h.cookieName(r), Value: value, Path: "/", Expires: expires, HttpOnly: true, Secure: h.Secure(r), SameSite: http.SameSiteLaxMode,
	}
}

// sameSandbox reports whether a request comes from the preview itself or from another port of the
// sandbox. Browsers add cookies also to requests that a hostile sandbox sends. Two kinds of
// requests without an Origin can come from any page. One kind opens a page that is not in a frame.
// The other needs no cookie, because its address contains a link: linked is true.
func sameSandbox(r *http.Request, p Port, domains []string, linked bool) bool {
	sender := r.Header.Get("Origin")
	if sender == "" {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin": // no browser, the user, or the preview itself
			return true
		}
		dest := r.Header.Get("Sec-Fetch-Dest")
		if linked || r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document") {
			return true
		}
		sender = r.Referer() // browsers send no Origin for scripts, images and frames
	}
	u, err := url.Parse(sender)
	if err != nil {
		return false
	}
	from, ok := ParseHost(u.Host, domains)
	return ok && from.ID == p.ID && from.Domain == p.Domain
}

// isNavigation reports whether a browser will show the answer to a request as a page.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" && mode != "navigate" {
		return false
	}
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html") && r.Header.Get("Upgrade") == ""
}

// refuse answers a request that is not allowed. It sends a browser without a login to the page,
// which sends it back with a token.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, p Port, pass control.PreviewPass, err error) {
	unknown := errors.Is(err, control.ErrUnauthenticated)
	switch {
	case unknown && isNavigation(r) && !r.URL.Query().Has(linkParameter):
		redirect(w, h.origin(r, p.Domain)+PagePath+"?"+url.Values{
			"sandbox": {p.ID}, "port": {strconv.Itoa(p.Number)}, "path": {r.URL.RequestURI()},
		}.Encode())
	case unknown && r.URL.Query().Has(linkParameter):
		h.fail(w, r, http.StatusForbidden, problem{Title: "This link does not work", Text: "It has expired, or its owner has ended it.", Hint: "Ask for a new link."})
	case unknown:
		h.fail(w, r, http.StatusForbidden, needsLogin)
	default:
		h.failWith(w, r, err)
	}
}

var needsLogin = problem{
	Title: "This preview is private", Text: "Only members of the team that owns the sandbox can open it.",
	Hint: "Log in to pyro in this browser and open the preview again, or ask the owner for a link.",
}

// origin returns the origin of another host of this server, for the client of a request.
func (h *Handler) origin(r *http.Request, name string) string {
	scheme := "http://"
	if h.Secure(r) {
		scheme = "https://"
	}
	return scheme + at(name, r.Host)
}

// URL returns the address of a port for the client of a request to the page.
func (h *Handler) URL(r *http.Request, id string, port int) string {
	return h.origin(r, Port{id, port, h.domain(r)}.Host()) + "/"
}

// domain returns the domain for previews that the client of a request to the page can reach.
func (h *Handler) domain(r *http.Request) string {
	name := strings.ToLower(r.Host)
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	for _, d := range h.Domains {
		if name == d {
			return d
		}
	}
	if ip := net.ParseIP(strings.Trim(name, "[]")); name != Local && !ip.IsLoopback() && len(h.Domains) > 0 {
		return h.Domains[0]
	}
	return Local
}

// LinkURL returns an address with the token of a link.
func LinkURL(address string, token secret.Value) string {
	return address + "?" + url.Values{linkParameter: {token.Reveal()}}.Encode()
}

func redirect(w http.ResponseWriter, to string) {
	header := w.Header()
	header.Set("Location", to)
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}
