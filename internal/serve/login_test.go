package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// browser is a client with cookies and the headers of a browser.
type browser struct {
	*world
	jar *cookiejar.Jar
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	w.check(err)
	return &browser{w, jar}
}

// send sends a request, and returns the status and the body.
func (b *browser) send(method, path, content string, headers ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(content))
	b.check(err)
	if content != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	c := http.Client{Jar: b.jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := c.Do(req)
	b.check(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	b.check(err)
	return r.StatusCode, string(text)
}

// link returns the body of a login with a link for an owner of the team.
func (w *world) link() string {
	w.t.Helper()
	owner := store.User{ID: store.NewID(store.UserPrefix), Email: "owner@localhost", CreatedAt: time.Now()}
	if _, err := w.store.UserByEmail(w.t.Context(), owner.Email); err != nil {
		w.check(w.store.Invite(w.t.Context(), w.team, owner, store.RoleOwner, store.RoleOwner, time.Now()))
	}
	token, ok, err := w.control.OwnerLink(w.t.Context())
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
	return `{"token": "` + token.Reveal() + `"}`
}

// TestLoginByLink logs in as a browser does, and checks what the session can do.
func TestLoginByLink(t *testing.T) {
	w := newWorld(t)
	b, link := w.browser(), w.link()
	if got, text := b.send("POST", "/v1/auth/link", link); got != 200 {
		t.Fatalf("got %d: %s", got, text)
	}
	if got, text := w.browser().send("POST", "/v1/auth/link", link); got != 401 || !strings.Contains(text, "was used") {
		t.Errorf("the second use: got %d: %s", got, text)
	}
	var me Me
	got, text := b.send("GET", "/v1/me", "")
	if err := json.Unmarshal([]byte(text), &me); got != 200 || err != nil || me.Role != "owner" || me.HasPassword {
		t.Errorf("got %d: %s", got, text)
	}
	if got, text := b.send("POST", "/v1/api-keys", `{}`); got != 201 {
		t.Errorf("got %d: %s", got, text)
	}
	at, _ := url.Parse(w.url)
	c := b.jar.Cookies(at)
	if len(c) != 1 || c[0].Name != "pyro_session" {
		t.Errorf("the cookies are %v", c)
	}
	token := c[0].Value
	if got := w.call("none", "GET", "/v1/me", nil, nil, "Authorization", "Bearer "+token); got != 200 {
		t.Errorf("with the token: got %d", got)
	}
	if got, text := b.send("POST", "/v1/auth/logout", ""); got != 204 {
		t.Errorf("got %d: %s", got, text)
	}
	if c := b.jar.Cookies(at); len(c) != 0 {
		t.Errorf("after the logout, the cookies are %v", c)
	}
	if got := w.call("none", "GET", "/v1/me", nil, nil, "Authorization", "Bearer "+token); got != 401 {
		t.Errorf("after the logout: got %d", got)
	}
}

// TestKeysAreNotUsers checks that an API key can't act as a user, and that it is accepted as a
// token.
func TestKeysAreNotUsers(t *testing.T) {
	w := newWorld(t)
	if got := w.call("full", "GET", "/v1/me", nil, nil); got != 403 {
		t.Errorf("got %d", got)
	}
	if got := w.call("none", "GET", "/v1/sandboxes", nil, nil, "Authorization", "Bearer "+w.keys["full"]); got != 200 {
		t.Errorf("got %d", got)
	}
	if got := w.call("none", "POST", "/v1/auth/login", map[string]any{"email": "own@example.com", "password": "wrong horse"}, nil); got != 401 {
		t.Errorf("got %d", got)
	}
	if got := w.call("none", "POST", "/v1/auth/link", map[string]any{"token": "unknown"}, nil); got != 401 {
		t.Errorf("got %d", got)
	}
}

// TestOtherSites checks that another site can't use the session of a browser.
func TestOtherSites(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	if got, _ := b.send("POST", "/v1/auth/link", w.link()); got != 200 {
		t.Fatalf("got %d", got)
	}
	at, _ := url.Parse(w.url)
	cookie := b.jar.Cookies(at)[0].String()
	b.jar, _ = cookiejar.New(nil) // without the jar, the test sends the cookie to every host
	for name, headers := range map[string][]string{
		"a form of another site":         {"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"},
		"a form of a sandbox":            {"Sec-Fetch-Site", "same-site", "Origin", "http://8080-cl-1.localhost:" + at.Port()},
		"an old browser":                 {"Sec-Fetch-Site", "", "Origin", "http://evil.example"},
		"a name that resolves to us":     {"Host", "evil.example:" + at.Port()},
		"the same, as its own origin":    {"Host", "evil.example", "Origin", "http://evil.example"},
		"a sandbox with our host's name": {"Host", "8080-cl-1.localhost"},
		"the password of a proxy":        {"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example", "Authorization", "Basic eA=="},
		"the same, with another name":    {"Host", "evil.example", "Authorization", "Basic eA=="},
	} {
		if got, text := b.send("POST", "/v1/api-keys", `{}`, append(headers, "Cookie", cookie)...); got != 403 && got != 421 && got != 404 { // 404: the host of a preview
			t.Errorf("%s: got %d: %s", name, got, text)
		}
	}
	if got, text := b.send("GET", "/v1/me", "", "Cookie", cookie, "Host", "evil.example"); got != 421 {
		t.Errorf("got %d: %s", got, text)
	}
	if got, text := b.send("GET", "/v1/me", "", "Cookie", cookie, "Host", "localhost:"+at.Port()); got != 200 {
		t.Errorf("got %d: %s", got, text)
	}
	if got := w.call("full", "GET", "/v1/sandboxes", nil, nil); got != 200 {
		t.Errorf("got %d", got)
	}
}

// TestBehindProxy checks the cookie and the address of a client that uses TLS with a proxy.
func TestBehindProxy(t *testing.T) {
	for remote, trusted := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "192.0.2.1:1": false} {
		r, _ := http.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Add("X-Forwarded-For", "203.0.113.1, 198.51.100.7")
		want, name := "198.51.100.7", "__Host-pyro_session"
		if !trusted {
			want, name = "192.0.2.1", "pyro_session"
		}
		if got := address(r); got != want {
			t.Errorf("%s: got the address %s", remote, got)
		}
		if got := nameOfCookie(r, cookieName); got != name || secure(r) != trusted {
			t.Errorf("%s: got the cookie %s", remote, got)
		}
	}
}

// TestNoCredentials checks the answer to a request without a key or session. A key that is wrong
// gets another answer.
func TestNoCredentials(t *testing.T) {
	w := newWorld(t)
	w.keys["wrong"] = "wrong"
	for key, want := range map[string]string{"": "the request has no API key and no session", "wrong": "there is no such API key"} {
		var e Error
		if got := w.call(key, http.MethodGet, "/v1/sandboxes", nil, &e); got != http.StatusUnauthorized || !strings.Contains(e.Detail.Message, want) {
			t.Errorf("key %q: got %d %q, want %q", key, got, e.Detail.Message, want)
		}
	}
}
