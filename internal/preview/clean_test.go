package preview

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestLocal(t *testing.T) {
	for address, want := range map[string]string{
		"/a?b=c%2F#d": "/a?b=c%2F#d", "/": "/", "": "/", "//evil": "/", "/\\evil": "/", "https://evil/": "/", "a": "/", "/a\r\nb": "/", "/%2Fevil": "/%2Fevil",
	} {
		if got := local(address); got != want {
			t.Errorf("%q: got %q", address, got)
		}
	}
}

func TestWithoutLink(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1&b=%2f+x": "a=1&b=%2f+x", "pyro_link=x": "", "a&pyro_link=x&b": "a&b", "pyro%5Flink=x&c": "c", "pyro_link&a;b=%zz": "a;b=%zz", "pyro_links=1": "pyro_links=1",
	} {
		if got := withoutLink(query); got != want {
			t.Errorf("%q: got %q", query, got)
		}
	}
}

func TestReferer(t *testing.T) {
	for referer, want := range map[string]string{
		"": "", "http://a.localhost/": "http://a.localhost/", "http://a.localhost/?x=1": "http://a.localhost/?x=1", "x?": "x?", "http://a.localhost/?pyro_link=x": "http://a.localhost/",
		"http://a.localhost/b?a=%2f&pyro%5Flink=x&c": "http://a.localhost/b?a=%2f&c", "?pyro_link=x": "",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Referer"] = []string{referer}
		cleanRequest(r)
		if got := r.Header.Get("Referer"); got != want {
			t.Errorf("%q: got %q", referer, got)
		}
	}
}

func TestGuestsCookies(t *testing.T) {
	for line, want := range map[string]bool{
		"a=1": true, "a=1; Path=/; Secure": true, "a=1; Domain=8000-x.localhost": true, "a=1; domain = .8000-X.localhost": true, "a=1; Domain=": true, "domain=localhost": true,
		"a=1; Domain=localhost": false, "a=1;DOMAIN=.localhost": false, "a=1; Path=/; Domain=example.com": false, "a=1; Domain=x; Domain=8000-x.localhost": false,
		"pyro_session=1": false, " pyro_preview =1": false, "__Host-pyro_session=1; Secure; Path=/": false, "__HOST-PYRO_x=1": false,
	} {
		h := http.Header{"Set-Cookie": {line}}
		cleanResponse(h, "8000-x.localhost")
		if got := h.Get("Set-Cookie") != ""; got != want {
			t.Errorf("%q passes: %v", line, got)
		}
	}
}
