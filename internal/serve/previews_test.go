package serve

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// guest is a hostile web server in a sandbox. It counts requests and stores the last request.
// Requests can overlap: a client may get an answer from the proxy while the guest still has the
// request.
type guest struct {
	seen   func(*http.Request) // may be nil
	closed chan websocket.StatusCode
	ended  chan error // the end of an endless answer

	mu    sync.Mutex
	count int
	last  *http.Request
}

func (g *guest) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

func (g *guest) lastRequest() *http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

func (g *guest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.count++
	g.last = r
	g.mu.Unlock()
	if g.seen != nil {
		g.seen(r)
	}
	h := w.Header()
	switch r.URL.Path {
	case "/hostile":
		h.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
		h.Set("Clear-Site-Data", `"*"`)
		h.Add("Set-Cookie", "pyro_session=stolen; Path=/")
		h.Add("Set-Cookie", "__Host-pyro_preview=stolen; Path=/; Secure")
		h.Add("Set-Cookie", "a=1; Domain=localhost")
		h.Add("Set-Cookie", "b=1; domain=.LOCALHOST; Path=/")
		h.Add("Set-Cookie", "own=1; Path=/; HttpOnly")
	case "/upload":
		sum := sha256.New()
		n, _ := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x", n, sum.Sum(nil))
	case "/events":
		h.Set("Content-Type", "text/event-stream")
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			if i == 1 {
				<-r.Context().Done()
			}
		}
	case "/socket":
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		c.SetReadLimit(1 << 20)
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				g.closed <- websocket.CloseStatus(err)
				return
			}
			c.Write(r.Context(), kind, b)
		}
	case "/endless":
		_, err := io.Copy(w, counted)
		g.ended <- err
	default:
		fmt.Fprintf(w, "guest %s %s", r.Method, r.URL.RequestURI())
	}
}

// previewed is a world with a sandbox whose port 8000 has a hostile web server.
type previewed struct {
	*world
	guest  *guest
	id     string
	port   string // of the server
	client *http.Client
}

func newPreviewed(t *testing.T) *previewed {
	w := newWorld(t)
	p := &previewed{world: w, guest: &guest{closed: make(chan websocket.StatusCode, 1), ended: make(chan error, 1)}, id: w.create().ID}
	server := httptest.NewServer(p.guest)
	t.Cleanup(server.Close)
	t.Cleanup(w.server.Shutdown)
	w.host.Listen(p.id, 8000, server.Listener.Addr().String())
	at, _ := url.Parse(w.url)
	p.port = at.Port()
	jar, err := cookiejar.New(nil)
	w.check(err)
	p.client = &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", at.Host) // connect to this server for every host name
	}}}
	return p
}

// address returns the address of a path of the preview.
func (p *previewed) address(path string) string {
	return "http://8000-" + p.id + ".localhost:" + p.port + path
}

// get sends a request as a browser that shows a page. It returns the status and the body of the
// last answer.
func (p *previewed) get(address string, headers ...string) (int, string, *http.Response) {
	p.t.Helper()
	return p.send("GET", address, nil, append([]string{"Accept", "text/html", "Sec-Fetch-Mode", "navigate"}, headers...)...)
}

func (p *previewed) send(method, address string, content io.Reader, headers ...string) (int, string, *http.Response) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, content)
	p.check(err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	r, err := p.client.Do(req)
	p.check(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	p.check(err)
	return r.StatusCode, string(text), r
}

// login logs the client in at the page with the given host name.
func (p *previewed) login(name string) {
	p.t.Helper()
	if got, text, _ := p.send("POST", "http://"+net.JoinHostPort(name, p.port)+"/v1/auth/link", strings.NewReader(p.link()), "Content-Type", "application/json"); got != 200 {
		p.t.Fatalf("got %d: %s", got, text)
	}
}

// TestPreview opens a private preview in a browser that has a session of the page.
func TestPreview(t *testing.T) {
	for _, name := range []string{"localhost", "127.0.0.1"} {
		p := newPreviewed(t)
		if got, text, r := p.get(p.address("/a?b=c")); got != 403 || !strings.Contains(text, "is private") || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("without a login: got %d: %s", got, text)
		}
		if got, _, _ := p.send("GET", p.address("/api"), nil); got != 403 {
			t.Errorf("no page: got %d", got)
		}
		p.login(name)
		got, text, r := p.get(p.address("/a?b=c&d=%2F"), "Cookie", "guest=1; pyro_session=x", "Cookie", "__Host-pyro_session=y", "X-Api-Key", "of the guest", "Authorization", "Basic eA==")
		if got != 200 || text != "guest GET /a?b=c&d=%2F" || r.Request.URL.String() != p.address("/a?b=c&d=%2F") {
			t.Fatalf("got %d: %s (%s)", got, text, r.Request.URL)
		}
		if got, text, _ := p.send("POST", p.address("/x"), strings.NewReader("content"), "Origin", p.address("")); got != 200 {
			t.Errorf("its own form: got %d: %s", got, text)
		}
		h := p.guest.lastRequest().Header
		if h.Get("X-Forwarded-Host") != "8000-"+p.id+".localhost:"+p.port || h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Proto") != "http" || p.guest.lastRequest().Host != h.Get("X-Forwarded-Host") {
			t.Errorf("%s: %v", p.guest.lastRequest().Host, h)
		}
		before := p.guest.requests()
		for what, origin := range map[string]string{"another site": "http://evil.example", "another sandbox": "http://8000-cl-other.localhost:" + p.port, "a hidden site": "null"} {
			if got, _, _ := p.send("POST", p.address("/x"), nil, "Origin", origin); got != 403 {
				t.Errorf("%s: got %d", what, got)
			}
		}
		if got, text, _ := p.send("POST", p.address("/x"), nil, "Origin", "http://3000-"+p.id+".localhost:"+p.port); got != 200 || p.guest.requests() != before+1 {
			t.Errorf("another port of the sandbox: got %d: %s", got, text)
		}
		at, _ := url.Parse("http://" + net.JoinHostPort(name, p.port))
		session := p.client.Jar.Cookies(at)[0].Value
		if got, _, _ := p.send("POST", at.String()+"/v1/auth/logout", nil); got != 204 {
			t.Errorf("logout: got %d", got)
		}
		if got, text, _ := p.send("GET", p.address("/api"), nil); got != 403 {
			t.Errorf("after the logout: got %d: %s", got, text)
		}
		for _, line := range p.guest.lastRequest().Header["Cookie"] {
			if strings.Contains(line, session) {
				t.Error("the guest has the session")
			}
		}
	}
}

// TestPreviewSenders checks which requests without an Origin use the login of a browser. Browsers
// send none for scripts and images.
func TestPreviewSenders(t *testing.T) {
	p := newPreviewed(t)
	p.login("localhost")
	p.get(p.address("/"))
	var link PortLink
	if got := p.call("full", "POST", "/v1/sandboxes/"+p.id+"/ports/8000/link", map[string]any{"expires_in_sec": 60}, &link); got != 201 {
		t.Fatalf("got %d", got)
	}
	other := "http://8000-cl-other.localhost:" + p.port + "/"
	for what, c := range map[string]struct {
		site, mode, dest, referer string
		want                      int
	}{
		"a program":                       {"", "", "", "", 200},
		"a script of the page":            {"same-origin", "no-cors", "script", p.address("/"), 200},
		"a page without a referrer":       {"same-origin", "no-cors", "image", "", 200},
		"an address that a user typed":    {"none", "navigate", "document", "", 200},
		"a link of another site":          {"cross-site", "navigate", "document", "https://example.org/", 200},
		"another port of the sandbox":     {"same-site", "no-cors", "script", "http://3000-" + p.id + ".localhost:" + p.port + "/", 200},
		"a script of another sandbox":     {"same-site", "no-cors", "script", other, 403},
		"an image of another site":        {"cross-site", "no-cors", "image", "https://example.org/", 403},
		"a sandbox that hides its name":   {"same-site", "no-cors", "script", "", 403},
		"a sandbox with a similar name":   {"same-site", "no-cors", "script", "http://8000-" + p.id + ".localhost.evil.example/", 403},
		"a referrer that is not an URL":   {"same-site", "no-cors", "script", "http://[", 403},
		"an unknown site":                 {"new", "no-cors", "script", other, 403},
		"a fetch of another origin, read": {"same-site", "same-origin", "empty", other, 403},
		"a link, in an older browser":     {"cross-site", "navigate", "", "https://example.org/", 200},
		"a frame of the page":             {"same-origin", "navigate", "iframe", "", 200},
		"a frame of another port":         {"same-site", "navigate", "iframe", "http://3000-" + p.id + ".localhost:" + p.port + "/", 200},
		"a frame of another sandbox":      {"same-site", "navigate", "iframe", other, 403},
		"a frame without a referrer":      {"same-site", "navigate", "iframe", "", 403},
		"an object of another sandbox":    {"same-site", "navigate", "object", other, 403},
		"a frame of another site":         {"cross-site", "navigate", "frame", "https://example.org/", 403},
	} {
		headers := []string{"Sec-Fetch-Site", c.site, "Sec-Fetch-Mode", c.mode, "Sec-Fetch-Dest", c.dest, "Referer", c.referer}
		if got, text, _ := p.send("GET", p.address("/x"), nil, headers...); got != c.want {
			t.Errorf("%s: got %d: %s", what, got, text)
		}
	}
	image := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Referer", "https://example.org/"}
	p.call("full", "PUT", "/v1/sandboxes/"+p.id+"/ports/8000", map[string]any{"public": true}, nil)
	if got, text, _ := p.send("GET", p.address("/x"), nil, image...); got != 200 {
		t.Errorf("an image of a public port on another site: got %d: %s", got, text)
	}
	p.call("full", "PUT", "/v1/sandboxes/"+p.id+"/ports/8000", map[string]any{"public": false}, nil)
	p.client.Jar, _ = cookiejar.New(nil)
	if got, text, _ := p.send("GET", link.URL, nil, image...); got != 200 {
		t.Errorf("the link of an image on another site: got %d: %s", got, text)
	}
}

// TestPreviewHidesLogins checks that a guest sees no cookie, key or token of pyro, and can't set
// cookies and policies for others.
func TestPreviewHidesLogins(t *testing.T) {
	p := newPreviewed(t)
	p.login("localhost")
	p.get(p.address("/"))
	own := []string{"Cookie", "a=1; pyro_session=x; b=\"2\"", "Cookie", "__Host-pyro_session=y; __Host-pyro_preview=z", "X-API-Key", "theirs", "Authorization", "Bearer theirs"}
	if got, _, _ := p.send("GET", p.address("/"), nil, own...); got != 200 {
		t.Fatalf("got %d", got)
	}
	h := p.guest.lastRequest().Header
	all := fmt.Sprint(h)
	if strings.Contains(all, "pyro_") || h.Get("Cookie") != `a=1; b="2"` || h.Get("X-API-Key") != "theirs" || h.Get("Authorization") != "Bearer theirs" {
		t.Errorf("the guest got %s", all)
	}
	_, _, r := p.send("GET", p.address("/hostile"), nil)
	if c := r.Header["Set-Cookie"]; len(c) != 1 || c[0] != "own=1; Path=/; HttpOnly" || r.Header.Get("Strict-Transport-Security")+r.Header.Get("Clear-Site-Data") != "" {
		t.Errorf("the browser got %v", r.Header)
	}

	p.client.Jar, _ = cookiejar.New(nil)
	for _, headers := range [][]string{{"X-API-Key", p.keys["full"]}, {"Authorization", "Bearer " + p.keys["full"]}} {
		if got, text, _ := p.send("GET", p.address("/"), nil, headers...); got != 200 || strings.Contains(fmt.Sprint(p.guest.lastRequest().Header), "wrn_") {
			t.Errorf("with a key: got %d: %s; the guest got %v", got, text, p.guest.lastRequest().Header)
		}
	}
	for key, want := range map[string]int{"read": 403, "foreign": 403, "revoked": 403} {
		if got, text, _ := p.send("GET", p.address("/"), nil, "X-API-Key", p.keys[key]); got != want {
			t.Errorf("with the key %s: got %d: %s", key, got, text)
		}
	}
}

// TestPreviewLinks checks links that expire, and public ports.
func TestPreviewLinks(t *testing.T) {
	p := newPreviewed(t)
	one := "/v1/sandboxes/" + p.id + "/ports/8000"
	var link PortLink
	if got := p.call("full", "POST", one+"/link", map[string]any{"expires_in_sec": 60}, &link); got != 201 || time.Until(link.ExpiresAt) > time.Minute {
		t.Fatalf("got %d: %+v", got, link)
	}
	u, err := url.Parse(link.URL)
	p.check(err)
	token := u.Query().Get("pyro_link")
	open := p.address("/a?x=1&pyro_link=" + token)
	if got, text, _ := p.send("PUT", open, nil); got != 200 || text != "guest PUT /a?x=1" {
		t.Errorf("a program: got %d: %s", got, text)
	}
	p.client.Jar, _ = cookiejar.New(nil)
	if got, text, r := p.get(open); got != 200 || text != "guest GET /a?x=1" || strings.Contains(r.Request.URL.String(), token) {
		t.Errorf("a browser: got %d: %s (%s)", got, text, r.Request.URL)
	}
	if got, text, _ := p.get(p.address("/b")); got != 200 || text != "guest GET /b" || strings.Contains(fmt.Sprint(p.guest.lastRequest().Header), token) {
		t.Errorf("the next page: got %d: %s", got, text)
	}
	p.client.Jar, _ = cookiejar.New(nil)
	expires, mac, _ := strings.Cut(token, ".")
	for what, bad := range map[string]string{"later": "9" + expires + "." + mac, "no signature": expires + ".", "empty": "", "expired": "1.x"} {
		if got, _, _ := p.get(p.address("/?pyro_link=" + url.QueryEscape(bad))); got != 403 {
			t.Errorf("%s: got %d", what, got)
		}
	}
	other := p.create()
	if got, _, _ := p.get("http://8000-" + other.ID + ".localhost:" + p.port + "/?pyro_link=" + token); got != 403 {
		t.Errorf("another sandbox: got %d", got)
	}

	var port Port
	if got := p.call("full", "PUT", one, map[string]any{"public": true}, &port); got != 200 || !port.Public || !strings.HasPrefix(port.URL, "http://8000-"+p.id+".localhost:") {
		t.Errorf("got %d: %+v", got, port)
	}
	if got, text, _ := p.send("POST", p.address("/x"), nil, "Origin", "http://evil.example"); got != 200 {
		t.Errorf("public: got %d: %s", got, text)
	}
	var ports Ports
	if got := p.call("read", "GET", "/v1/capsules/"+p.id+"/ports", nil, &ports); got != 200 || len(ports.Ports) != 1 || ports.Ports[0] != port {
		t.Errorf("got %d: %+v", got, ports)
	}
	if got := p.call("full", "DELETE", one, nil, nil); got != 204 {
		t.Errorf("got %d", got)
	}
	if got, _, _ := p.get(open); got != 403 {
		t.Errorf("a link that was ended: got %d", got)
	}
	if got := p.call("full", "GET", one, nil, &port); got != 200 || port.Public {
		t.Errorf("got %d: %+v", got, port)
	}
}

// TestPreviewHidesLinks checks that no page of a guest sees the token of a link, even if the
// browser does not need the link.
func TestPreviewHidesLinks(t *testing.T) {
	p := newPreviewed(t)
	one := "/v1/sandboxes/" + p.id + "/ports/8000"
	var link PortLink
	if got := p.call("full", "POST", one+"/link", map[string]any{"expires_in_sec": 60}, &link); got != 201 {
		t.Fatalf("got %d", got)
	}
	opens := func(what string) {
		t.Helper()
		if got, text, r := p.get(link.URL + "&x=1"); got != 200 || text != "guest GET /?x=1" || r.Request.URL.String() != p.address("/?x=1") {
			t.Errorf("%s: got %d: %s (%s)", what, got, text, r.Request.URL)
		}
	}
	p.login("localhost")
	p.get(p.address("/"))
	opens("a member")
	script := []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script", "Referer", link.URL + "&x=1"}
	if got, text, _ := p.send("GET", p.address("/x"), nil, script...); got != 200 || p.guest.lastRequest().Header.Get("Referer") != p.address("/?x=1") {
		t.Errorf("a script of the page: got %d: %s; the guest got %v", got, text, p.guest.lastRequest().Header)
	}
	p.call("full", "PUT", one, map[string]any{"public": true}, nil)
	p.client.Jar, _ = cookiejar.New(nil)
	opens("a public port")
}

// TestPreviewInformationalAnswers checks that a guest can't use answers such as 103 Early Hints to
// set cookies for others, or to remove a cookie of pyro.
func TestPreviewInformationalAnswers(t *testing.T) {
	p := newPreviewed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p.check(err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nSet-Cookie: evil=1; Domain=localhost\r\nClear-Site-Data: \"*\"\r\n\r\n"+
				"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			c.Close()
		}
	}()
	p.host.Listen(p.id, 8001, l.Addr().String())
	var link PortLink
	if got := p.call("full", "POST", "/v1/sandboxes/"+p.id+"/ports/8001/link", map[string]any{"expires_in_sec": 60}, &link); got != 201 {
		t.Fatalf("got %d", got)
	}
	u, err := url.Parse(link.URL)
	p.check(err)
	c, err := net.Dial("tcp", "127.0.0.1:"+p.port)
	p.check(err)
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host)
	answer, err := io.ReadAll(c)
	p.check(err)
	if text := string(answer); !strings.HasPrefix(text, "HTTP/1.1 200 ") || strings.Contains(text, "evil") || !strings.Contains(text, "Set-Cookie: pyro_preview=l.") || !strings.HasSuffix(text, "ok") {
		t.Errorf("got %s", text)
	}
}

// TestPreviewErrors checks the error pages of previews.
func TestPreviewErrors(t *testing.T) {
	p := newPreviewed(t)
	key := []string{"X-API-Key", p.keys["full"]}
	if got, text, _ := p.send("GET", "http://8001-"+p.id+".localhost:"+p.port, nil, key...); got != 502 || !strings.Contains(text, "Nothing listens on port 8001") || !strings.Contains(text, "Programs listen on: 8000.") {
		t.Errorf("nothing listens: got %d: %s", got, text)
	}
	p.call("full", "PUT", "/v1/sandboxes/"+p.id+"/ports/8001", map[string]any{"public": true}, nil)
	if got, text, _ := p.send("GET", "http://8001-"+p.id+".localhost:"+p.port, nil); got != 502 || strings.Contains(text, "8000") {
		t.Errorf("a stranger: got %d: %s", got, text)
	}
	if got, _, _ := p.get("http://8000-cl-unknown.localhost:" + p.port); got != 404 {
		t.Errorf("unknown sandbox: got %d", got)
	}
	if got, _, _ := p.send("GET", "http://8000.localhost:"+p.port, nil); got != 421 {
		t.Errorf("no port: got %d", got)
	}
	for _, path := range []string{"//evil.example", "/\\evil.example", "https://evil.example", ""} {
		p.login("localhost")
		_, _, r := p.get("http://localhost:" + p.port + "/preview/open?" + url.Values{"sandbox": {p.id}, "port": {"8000"}, "path": {path}}.Encode())
		if r.Request.URL.String() != p.address("/") {
			t.Errorf("%q leads to %s", path, r.Request.URL)
		}
	}
	for _, query := range []string{"sandbox=x.evil.example%2F&port=80", "sandbox=" + p.id + "&port=0", "sandbox=cl-unknown&port=80", ""} {
		if got, text, _ := p.get("http://localhost:" + p.port + "/preview/open?" + query); got != 404 {
			t.Errorf("%s: got %d: %s", query, got, text)
		}
	}
	if got, text, _ := p.send("GET", "http://localhost:"+p.port+"/preview/open?sandbox="+p.id+"&port=8000", nil, "Sec-Fetch-Mode", "no-cors"); got != 403 {
		t.Errorf("an image: got %d: %s", got, text)
	}
	for dest, want := range map[string]int{"iframe": 403, "embed": 403, "document": 200} {
		if got, text, _ := p.get("http://localhost:"+p.port+"/preview/open?sandbox="+p.id+"&port=8000", "Sec-Fetch-Dest", dest); got != want {
			t.Errorf("%s: got %d: %s", dest, got, text)
		}
	}
	p.call("full", "DELETE", "/v1/sandboxes/"+p.id, nil, nil)
	if got, _, _ := p.get(p.address("/")); got != 404 {
		t.Errorf("deleted sandbox: got %d", got)
	}
}

// TestPreviewStreams checks uploads, server-sent events and WebSockets. It also checks that streams
// end when the server closes.
func TestPreviewStreams(t *testing.T) {
	p := newPreviewed(t)
	p.call("full", "PUT", "/v1/sandboxes/"+p.id+"/ports/8000", map[string]any{"public": true}, nil)
	const size = 120 << 20 // more than the API accepts
	sum := sha256.New()
	content := io.TeeReader(io.LimitReader(counted, size), sum)
	if got, text, _ := p.send("POST", p.address("/upload"), content); got != 200 || text != fmt.Sprintf("%d %x", size, sum.Sum(nil)) {
		t.Errorf("got %d: %s", got, text)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", p.address("/events"), nil)
	p.check(err)
	r, err := p.client.Do(req)
	p.check(err)
	defer r.Body.Close()
	events := bufio.NewReader(r.Body)
	for _, want := range []string{"data: 0\n", "\n", "data: 1\n"} {
		if line, err := events.ReadString('\n'); line != want {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.address("/socket"), "http"), &websocket.DialOptions{HTTPClient: p.client})
	p.check(err)
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for _, n := range []int{0, 125, 126, 70000} {
		sent := strings.Repeat("x", n)
		p.check(c.Write(t.Context(), websocket.MessageText, []byte(sent)))
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != sent {
			t.Errorf("got %d bytes, want %d: %v", len(got), n, err)
		}
	}
	began := time.Now()
	go p.server.Shutdown()
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ended with %v", err)
	}
	if rest, err := io.ReadAll(events); err == nil && len(rest) > 1 {
		t.Errorf("the events went on: %q", rest)
	}
	if d := time.Since(began); d > testenv.Patience {
		t.Errorf("it took %v", d)
	}
	select {
	case <-p.guest.closed:
	case <-time.After(testenv.Patience):
		t.Error("the guest's WebSocket is still open")
	}
}

// TestPreviewSlowReader checks that the server gives up clients that do not read an answer. A guest
// that sends nothing for some time is no reason to end a stream.
func TestPreviewSlowReader(t *testing.T) {
	p := newPreviewed(t)
	p.server.quiet = time.Second
	p.call("full", "PUT", "/v1/sandboxes/"+p.id+"/ports/8000", map[string]any{"public": true}, nil)
	host := "\r\nHost: 8000-" + p.id + ".localhost\r\n\r\n"
	events := bufio.NewReader(p.connect("GET /events HTTP/1.1" + host))
	if _, err := http.ReadResponse(events, nil); err != nil {
		t.Fatal(err)
	}
	p.connect("GET /endless HTTP/1.1" + host)
	select {
	case <-p.guest.ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the server still waits")
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, events)
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("the stream has ended: %v", err)
	case <-time.After(2 * p.server.quiet):
	}
}
