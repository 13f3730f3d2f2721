package serve

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPage checks the paths that show the page, and the headers of the page.
func TestPage(t *testing.T) {
	w := newWorld(t)
	get := func(method, path, accept, encoding string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(method, w.url+path, nil)
		w.check(err)
		req.Header.Set("Accept", accept)
		req.Header.Set("Accept-Encoding", encoding)
		r, err := http.DefaultTransport.RoundTrip(req)
		w.check(err)
		defer r.Body.Close()
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, err = gzip.NewReader(r.Body)
			w.check(err)
		}
		text, err := io.ReadAll(body)
		w.check(err)
		return r, string(text)
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, path := range []string{"/", "/sandboxes/sb-1/files", "/login/token"} {
		r, text := get("GET", path, browser, "br, gzip")
		h := r.Header
		if r.StatusCode != 200 || !strings.Contains(text, `<div id="app">`) || h.Get("Content-Encoding") != "gzip" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: got %d %v: %s", path, r.StatusCode, h, text)
		}
		policy := h.Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "require-trusted-types-for 'script'; trusted-types 'none'") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
	for _, path := range []string{"/v1/nothing", "/docs/nothing", "/mcp/nothing", "/metrics/nothing", "/assets/nothing.js", "/..%2fv1"} {
		if r, text := get("GET", path, browser, ""); r.StatusCode != 404 && r.StatusCode != 307 || strings.Contains(text, "<") {
			t.Errorf("%s: got %d: %s", path, r.StatusCode, text)
		}
	}
	if r, _ := get("GET", "/nothing", "application/json", ""); r.StatusCode != 404 {
		t.Errorf("for a program: got %d", r.StatusCode)
	}
	if r, _ := get("POST", "/", browser, ""); r.StatusCode != 404 {
		t.Errorf("POST: got %d", r.StatusCode)
	}
	_, page := get("GET", "/", browser, "")
	_, script, _ := strings.Cut(page, `src="/assets/`)
	script, _, _ = strings.Cut(script, `"`)
	r, _ := get("GET", "/assets/"+script, "*/*", "gzip;q=0")
	if h := r.Header; r.StatusCode != 200 || !strings.Contains(h.Get("Cache-Control"), "immutable") || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") || h.Get("Content-Encoding") != "" {
		t.Errorf("the script %q: got %d %v", script, r.StatusCode, h)
	}
}
