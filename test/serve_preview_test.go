//go:build machine

package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/client"
)

// site is a web server in a sandbox, as a browser sees it.
type site struct {
	*api
	id      string
	browser *http.Client
}

// newSite starts a web server on port 8000 of a new sandbox.
func newSite(t *testing.T) *site {
	t.Helper()
	a := serveAPI(t)
	program := filepath.Join(t.TempDir(), "webserver")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./webserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	b, one := a.create(client.NewSandbox{})
	a.must(204, "POST", one+"/files/write", newForm(t, "/srv/webserver", string(text)), nil)
	a.must(202, "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", "chmod +x /srv/webserver && exec /srv/webserver 127.0.0.1:8000"}, "background": true, "tag": "web"}, nil)
	s := &site{api: a, id: b.Id}
	s.browser = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", strings.TrimPrefix(s.address, "http://")) // connect to this server for every host name
	}}}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if got, text := s.get("8000", "/headers"); got == 200 {
			return s
		} else if time.Now().After(end) {
			t.Fatalf("got %d: %s", got, text)
		}
	}
}

func (s *site) url(port, path string) string {
	return "http://" + port + "-" + s.id + ".localhost:" + s.address[strings.LastIndexByte(s.address, ':')+1:] + path
}

// get sends a request with the API key, and returns the status and the body.
func (s *site) get(port, path string, headers ...string) (int, string) {
	return s.send("GET", s.url(port, path), nil, append(headers, "X-API-Key", s.key)...)
}

func (s *site) send(method, url string, content io.Reader, headers ...string) (int, string) {
	s.t.Helper()
	return s.api.send(s.browser, newRequest(s.t.Context(), method, url, content, headers...))
}

// socket opens a WebSocket and checks that it works.
func (s *site) socket() *websocket.Conn {
	s.t.Helper()
	c, _, err := websocket.Dial(s.t.Context(), "ws"+strings.TrimPrefix(s.url("8000", "/socket"), "http"), &websocket.DialOptions{HTTPClient: s.browser, HTTPHeader: http.Header{"X-Api-Key": {s.key}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.CloseNow() })
	if err := c.Write(s.t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		s.t.Fatal(err)
	}
	if _, got, err := c.Read(s.t.Context()); err != nil || string(got) != "hello" {
		s.t.Fatalf("got %q, %v", got, err)
	}
	return c
}

// peak returns the largest resident set of the server since the last call of reset, in MiB.
func (a *api) peak() int {
	a.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.server.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(peak, &kb); err != nil {
		a.t.Fatal(err)
	}
	return kb / 1024
}

func (a *api) reset() {
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", a.server.Process.Pid), []byte("5"), 0)
}

// TestPreview uses a web server in a real sandbox through its preview.
func TestPreview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := "/v1/sandboxes/" + s.id

	_, text := s.get("8000", "/headers", "Cookie", "a=1; pyro_session=x; __Host-pyro_session=y", "Cookie", "pyro_preview=s.z")
	var h http.Header
	if err := json.Unmarshal([]byte(text), &h); err != nil || h.Get("Cookie") != "a=1" || strings.Contains(text, "pyro_") || strings.Contains(text, s.key) || h.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("the sandbox got %s (%v)", text, err)
	}
	if got, text := s.get("8001", "/"); got != 502 || !strings.Contains(text, "Programs listen on: 8000.") {
		t.Errorf("nothing listens: got %d: %s", got, text)
	}
	if got, _ := s.send("GET", s.url("8000", "/headers"), nil); got != 403 {
		t.Errorf("without a login: got %d", got)
	}

	events, err := s.browser.Do(newRequest(t.Context(), "GET", s.url("8000", "/events"), nil, "X-API-Key", s.key))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	if line, err := bufio.NewReader(events.Body).ReadString('\n'); line != "data: first\n" {
		t.Errorf("got %q, %v", line, err)
	}
	s.socket().Close(websocket.StatusNormalClosure, "")

	s.reset()
	before := s.peak()
	const size = 200 << 20
	content := io.LimitReader(filler(bytes.Repeat([]byte("x"), 64<<10)), size)
	began := time.Now()
	if got, text := s.send("POST", s.url("8000", "/upload"), content, "X-API-Key", s.key); got != 200 || text != fmt.Sprintln(size, error(nil)) {
		t.Errorf("the upload: got %d: %s", got, text)
	}
	after := s.peak()
	t.Logf("200 MiB in %v; the server used %d MiB before and at most %d MiB meanwhile", time.Since(began), before, after)
	if after > before+32 {
		t.Errorf("the server grew from %d to %d MiB", before, after)
	}

	s.must(200, "POST", one+"/pause", nil, nil)
	var b client.Sandbox
	if got, text := s.get("8000", "/headers"); got != 200 {
		t.Errorf("a paused sandbox: got %d: %s", got, text)
	}
	if s.must(200, "GET", one, nil, &b); b.Status != "running" {
		t.Errorf("after the first request it is %s", b.Status)
	}
	var link client.PortLink
	s.must(201, "POST", one+"/ports/8000/link", map[string]any{}, &link)
	if got, text := s.send("GET", strings.Replace(link.Url, "/?", "/headers?", 1), nil); got != 200 {
		t.Errorf("a link: got %d: %s", got, text)
	}

	// A new server serves the same program after the end of the old one.
	c := s.socket()
	early, err := net.Dial("tcp", strings.TrimPrefix(s.address, "http://")) // browsers open such connections before they need them
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	s.server.Process.Signal(syscall.SIGTERM)
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ended with %v", err)
	}
	if err := s.server.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	s.start()
	s.socket()
	s.must(204, "DELETE", one, nil, nil)
}

// filler is a reader that repeats a text without an end.
type filler []byte

func (r filler) Read(b []byte) (int, error) { return copy(b, r), nil }
