package preview

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Open serves PagePath. The caller has checked that session is the cookie of the page. Open sends
// the browser to a preview, with a token for it.
func (h *Handler) Open(w http.ResponseWriter, r *http.Request, session secret.Value) {
	q := r.URL.Query()
	number, ok := parsePort(q.Get("port"))
	id := q.Get("sandbox")
	if !ok || !isID(id) {
		h.fail(w, r, http.StatusNotFound, problem{Title: "No such preview", Text: "The address does not name a port of a sandbox."})
		return
	}
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	if mode != "" && mode != "navigate" || dest != "" && dest != "document" { // such as an image or a frame in a preview
		h.fail(w, r, http.StatusForbidden, problem{Title: "Not allowed", Text: "Only a browser that opens this address as a page gets a preview."})
		return
	}
	if !h.limit(w, r, control.Actor{}) {
		return
	}
	token, err := h.Control.PreviewToken(r.Context(), session, id, number, h.Address(r))
	switch {
	case errors.Is(err, control.ErrUnauthenticated):
		h.loginElsewhere(w, r)
	case err != nil:
		h.failWith(w, r, err)
	default:
		to := Port{id, number, h.domain(r)}
		redirect(w, h.origin(r, to.Host())+openPath+"?"+url.Values{"token": {token.Reveal()}, "path": {q.Get("path")}}.Encode())
	}
}

// loginElsewhere handles a browser without a session at this name. The browser may have a session
// at 127.0.0.1, because browsers do not share cookies between that address and localhost.
func (h *Handler) loginElsewhere(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name, port, err := net.SplitHostPort(r.Host)
	if err == nil && name == Local && !q.Has("again") {
		q.Set("again", "1")
		redirect(w, "http://"+net.JoinHostPort("127.0.0.1", port)+PagePath+"?"+q.Encode())
		return
	}
	h.fail(w, r, http.StatusForbidden, needsLogin)
}

// exchange sets the cookie of a preview if the request contains a valid token for it.
func (h *Handler) exchange(w http.ResponseWriter, r *http.Request, p Port) {
	q := r.URL.Query()
	cookie, expires, err := h.Control.ExchangePreviewToken(r.Context(), secret.New(q.Get("token")), p.ID, p.Number)
	switch {
	case errors.Is(err, control.ErrUnauthenticated):
		h.fail(w, r, http.StatusForbidden, problem{Title: "This address was used", Text: "It works once, within a minute.", Hint: "Open the preview again."})
	case err != nil:
		h.failWith(w, r, err)
	default:
		http.SetCookie(w, h.cookie(r, loginKind+cookie.Reveal(), expires))
		redirect(w, local(q.Get("path")))
	}
}

// local returns the address if it is a path on the same host, with or without a query. For other
// addresses it returns "/".
func local(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") || strings.Contains(address, "\\") {
		return "/"
	}
	return u.String()
}
