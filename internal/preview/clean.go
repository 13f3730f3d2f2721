package preview

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// ours reports whether the prefix of a cookie's name shows that the cookie belongs to pyro.
func ours(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.ToLower(name), "__host-"), "pyro_")
}

// ownKey returns the API key in the headers of a request.
func ownKey(h http.Header) (secret.Value, bool) {
	if key := secret.New(h.Get(control.KeyHeader)); control.IsKey(key) {
		return key, true
	}
	token, ok := control.Bearer(h.Get("Authorization"))
	return token, ok && control.IsKey(token)
}

// cleanRequest removes pyro's own credentials from a request, so that the guest never sees them.
// The guest's own cookies and authorization headers stay.
func cleanRequest(r *http.Request) {
	h := r.Header
	for _, value := range h.Values(control.KeyHeader) {
		if control.IsKey(secret.New(value)) {
			h.Del(control.KeyHeader)
		}
	}
	for _, value := range h.Values("Authorization") {
		if token, ok := control.Bearer(value); ok && control.IsKey(token) {
			h.Del("Authorization")
		}
	}
	lines := h.Values("Cookie")
	h.Del("Cookie")
	for _, line := range lines {
		var kept []string
		for part := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(part, "=")
			if !ours(strings.TrimSpace(name)) {
				kept = append(kept, strings.TrimSpace(part))
			}
		}
		if len(kept) > 0 {
			h.Add("Cookie", strings.Join(kept, "; "))
		}
	}
	r.URL.RawQuery = withoutLink(r.URL.RawQuery)
	for i, referer := range h["Referer"] {
		address, query, _ := strings.Cut(referer, "?")
		if clean := withoutLink(query); clean != query {
			h["Referer"][i] = strings.TrimSuffix(address+"?"+clean, "?")
		}
	}
}

// withoutLink removes the token of a link from a query, and leaves the rest unchanged.
func withoutLink(query string) string {
	if !strings.Contains(query, linkParameter) && !strings.Contains(query, "%") {
		return query
	}
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err != nil || plain != linkParameter {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// forbidden lists response headers that would affect other hosts or ports, or later requests to
// this host.
var forbidden = []string{"Strict-Transport-Security", "Clear-Site-Data", "Alt-Svc", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct"}

// cleanResponse removes headers that a guest must not send to the browser.
func cleanResponse(h http.Header, host string) {
	for _, name := range forbidden {
		h.Del(name)
	}
	lines := h.Values("Set-Cookie")
	if len(lines) == 0 {
		return
	}
	h.Del("Set-Cookie")
	for _, line := range lines {
		if ownCookie(line, host) {
			h.Add("Set-Cookie", line)
		}
	}
}

// ownCookie reports whether a guest may set a cookie. The cookie must not have a name of pyro's
// cookies, and must be limited to the guest's own host.
func ownCookie(line, host string) bool {
	parts := strings.Split(line, ";")
	name, _, _ := strings.Cut(parts[0], "=")
	if ours(strings.TrimSpace(name)) {
		return false
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		domain := strings.TrimPrefix(strings.TrimSpace(value), ".")
		if strings.EqualFold(strings.TrimSpace(key), "domain") && domain != "" && !strings.EqualFold(domain, host) {
			return false
		}
	}
	return true
}
