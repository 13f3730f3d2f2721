package serve

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// dialed is a WebSocket of a test.
type dialed struct {
	t testing.TB
	*websocket.Conn
}

// try opens a WebSocket with headers.
func (w *world) try(path string, headers ...string) (*dialed, *http.Response, error) {
	w.t.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		o.HTTPHeader.Set(headers[i], headers[i+1])
	}
	c, r, err := websocket.Dial(w.t.Context(), w.url+path, o)
	if err != nil {
		return nil, r, err
	}
	w.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(1 << 20)
	return &dialed{w.t, c}, r, nil
}

// dial opens a WebSocket with the key of a name, and sends frames.
func (w *world) dial(key, path string, frames ...string) *dialed {
	w.t.Helper()
	c, _, err := w.try(path, keyHeader, w.keys[key])
	w.check(err)
	c.send(frames...)
	return c
}

func (c *dialed) send(frames ...string) {
	c.t.Helper()
	for _, f := range frames {
		if err := c.Write(c.t.Context(), websocket.MessageText, []byte(f)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// next returns the next frame, or the close status if the server has closed the connection.
func (c *dialed) next() (e event, closed websocket.StatusCode) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), testenv.Patience)
	defer cancel()
	_, b, err := c.Read(ctx)
	if err != nil {
		if closed = websocket.CloseStatus(err); closed < 0 {
			c.t.Fatal(err)
		}
		return e, closed
	}
	if err := json.Unmarshal(b, &e); err != nil {
		c.t.Fatalf("%v: %s", err, b)
	}
	return e, 0
}

// expect checks the next frames in their compact JSON form.
func (c *dialed) expect(frames ...string) {
	c.t.Helper()
	for _, want := range frames {
		ctx, cancel := context.WithTimeout(c.t.Context(), testenv.Patience)
		_, got, err := c.Read(ctx)
		cancel()
		if err != nil || string(got) != want {
			c.t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
}

// ends checks that the server closes the connection with a status, after an error with a code
// unless the code is empty.
func (c *dialed) ends(code string, status websocket.StatusCode) {
	c.t.Helper()
	if code != "" {
		if e, _ := c.next(); e.Type != "error" || e.Code != code || e.Data == "" || !*e.Fatal {
			c.t.Errorf("got %+v, want an error with the code %s", e, code)
		}
	}
	if e, closed := c.next(); closed != status {
		c.t.Errorf("got %+v and the status %d, want %d", e, closed, status)
	}
}

func TestExecStream(t *testing.T) {
	w := newWorld(t)
	for _, base := range []string{"sandboxes", "capsules"} {
		path := "/v1/" + base + "/" + w.create().ID + "/exec/stream"
		c := w.dial("full", path, `{"type":"start","cmd":"bytes","args":["`+hex.EncodeToString([]byte("a<é"))+`","!e282","!ac21","ff","e2"]}`)
		c.expect(`{"type":"start","pid":7}`, `{"type":"stdout","data":"a\u003cé"}`, `{"type":"stderr","data":"€!"}`,
			`{"type":"stdout","data":"/w==","encoding":"base64"}`, `{"type":"stdout","data":"4g==","encoding":"base64"}`, `{"type":"exit","exit_code":0}`)
		c.ends("", websocket.StatusNormalClosure)

		c = w.dial("full", path, `{"type":"start","cmd":"exit","args":["7"]}`)
		c.expect(`{"type":"start","pid":7}`, `{"type":"exit","exit_code":7}`)
		c.ends("", websocket.StatusNormalClosure)
	}
	path := "/v1/sandboxes/" + w.create().ID + "/exec/stream"
	c := w.dial("full", path, `{"type":"start","cmd":"wait"}`)
	c.expect(`{"type":"start","pid":7}`)
	c.send(`{"type":"stop"}`)
	c.ends("", websocket.StatusNormalClosure)
	c = w.dial("full", path, `{"type":"start","cmd":"wait"}`)
	c.expect(`{"type":"start","pid":7}`)
	c.CloseNow()
	testenv.Eventually(w.t, "both programs are killed", func() bool { return w.host.Killed() == 2 })
}

func TestProcessStream(t *testing.T) {
	w := newWorld(t)
	path := "/v1/sandboxes/" + w.create().ID + "/processes/"
	c := w.dial("full", path+"greets/stream?stdout_offset=2")
	c.expect(`{"type":"start","pid":8}`, `{"type":"stdout","data":"llo\n","offset":2}`, `{"type":"stderr","data":"late ","offset":100}`,
		`{"type":"stderr","data":"é","offset":105}`, `{"type":"exit","exit_code":3}`)
	c.ends("", websocket.StatusNormalClosure)
	c = w.dial("full", path+"cut/stream")
	c.expect(`{"type":"start","pid":8}`, `{"type":"stdout","data":"a","offset":0}`, `{"type":"stdout","data":"ww==","encoding":"base64","offset":1}`, `{"type":"exit","exit_code":3}`)
	c.ends("", websocket.StatusNormalClosure)
	c = w.dial("full", path+"unknown/stream")
	c.ends("not_found", websocket.StatusPolicyViolation)
}

func TestPty(t *testing.T) {
	w := newWorld(t)
	path := "/v1/capsules/" + w.create().ID + "/pty"
	c := w.dial("full", path, `{"type":"start","cols":100,"rows":30,"envs":{"A":"b"},"cwd":"/tmp","user":"nobody"}`, `{"type":"input","data":"aGk="}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`, `{"type":"output","data":"aGk=","offset":0}`)
	m := w.host.Started("pty-00000000")
	if m.Cmd != "/bin/sh" || len(m.Args) != 2 || m.Cols != 100 || m.Rows != 30 || m.Envs["A"] != "b" || m.Cwd != "/tmp" || m.User != "nobody" {
		t.Errorf("%+v", m)
	}
	c.send(`{"type":"resize","cols":120,"rows":40}`)
	c.expect(`{"type":"output","data":"` + base64.StdEncoding.EncodeToString([]byte("120x40")) + `","offset":2}`)
	c.send(`{"type":"resize"}`)
	if e, _ := c.next(); e.Type != "error" || *e.Fatal || e.Code != "invalid_request" {
		t.Errorf("%+v", e)
	}
	c.CloseNow() // simulates a failure of the network

	c = w.dial("full", path, `{"type":"connect","tag":"pty-00000000"}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`, `{"type":"output","data":"`+base64.StdEncoding.EncodeToString([]byte("hi120x40"))+`","offset":0}`)
	other := w.dial("full", path, `{"type":"connect","tag":"pty-00000000","offset":8}`)
	other.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`)
	other.send(`{"type":"input","data":"ZXhpdA0="}`)
	for _, one := range []*dialed{c, other} {
		one.expect(`{"type":"output","data":"ZXhpdA0=","offset":8}`, `{"type":"exit","exit_code":0}`)
		one.ends("", websocket.StatusNormalClosure)
	}
	c = w.dial("full", path, `{"type":"start","cmd":"vi","args":["a"],"tag":"mine"}`, `{"type":"kill"}`)
	c.expect(`{"type":"started","pid":9,"tag":"mine"}`, `{"type":"exit","exit_code":137}`)
	c.ends("", websocket.StatusNormalClosure)
	w.dial("full", path, `{"type":"connect","tag":"none"}`).ends("not_found", websocket.StatusPolicyViolation)
}

// TestInputKeepsItsOrder types many small frames.
func TestInputKeepsItsOrder(t *testing.T) {
	w := newWorld(t)
	c := w.dial("full", "/v1/capsules/"+w.create().ID+"/pty", `{"type":"start"}`)
	var want, got strings.Builder
	go func() {
		for i := range 2000 {
			text, _ := json.Marshal(frame{Type: "input", Data: []byte{byte('a' + i%26)}})
			c.Write(t.Context(), websocket.MessageText, text)
		}
	}()
	for i := range 2000 {
		want.WriteByte(byte('a' + i%26))
	}
	c.next()
	for got.Len() < want.Len() {
		e, closed := c.next()
		if closed != 0 {
			t.Fatalf("closed with %d", closed)
		}
		text, err := base64.StdEncoding.DecodeString(e.Data)
		w.check(err)
		got.Write(text)
	}
	if got.String() != want.String() {
		t.Errorf("got %q", got.String())
	}
}

func TestWrongFrames(t *testing.T) {
	w := newWorld(t)
	one := "/v1/sandboxes/" + w.create().ID
	for name, in := range map[string]struct {
		path   string
		frames []string
	}{
		"no JSON":         {"/exec/stream", []string{"start"}},
		"no object":       {"/exec/stream", []string{"[]"}},
		"no type":         {"/exec/stream", []string{"{}"}},
		"no cmd":          {"/exec/stream", []string{`{"type":"start"}`}},
		"a wrong field":   {"/exec/stream", []string{`{"type":"start","cmd":1}`}},
		"auth again":      {"/exec/stream", []string{`{"type":"auth","token":"a"}`}},
		"a second start":  {"/pty", []string{`{"type":"start"}`, `{"type":"start"}`}},
		"a second exec":   {"/exec/stream", []string{`{"type":"start","cmd":"wait"}`, `{"type":"start","cmd":"wait"}`}},
		"input first":     {"/pty", []string{`{"type":"input","data":"aGk="}`}},
		"input, no text":  {"/pty", []string{`{"type":"start"}`, `{"type":"input","data":"***"}`}},
		"connect, no tag": {"/pty", []string{`{"type":"connect"}`}},
		"unknown":         {"/pty", []string{`{"type":"start"}`, `{"type":"` + strings.Repeat("x", 5000) + `"}`}},
	} {
		c := w.dial("full", one+in.path, in.frames...)
		var e event
		for e.Type != "error" {
			var closed websocket.StatusCode
			if e, closed = c.next(); closed != 0 {
				t.Fatalf("%s: closed with %d", name, closed)
			}
		}
		if e.Code != "invalid_request" || !*e.Fatal || len(e.Data) > 300 {
			t.Errorf("%s: %+v", name, e)
		}
		c.ends("", websocket.StatusPolicyViolation)
	}
	c := w.dial("full", one+"/exec/stream")
	w.check(c.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"start","cmd":"wait"}`)))
	c.ends("invalid_request", websocket.StatusPolicyViolation)
	c = w.dial("full", one+"/exec/stream")
	c.Write(t.Context(), websocket.MessageText, make([]byte, maxFrame+1))
	c.ends("", websocket.StatusMessageTooBig)
}

// TestFatalErrorIsTheLastFrame sends a frame after each kind of error.
func TestFatalErrorIsTheLastFrame(t *testing.T) {
	for fatal, want := range map[bool]error{false: nil, true: errGone} {
		sent := make(chan error, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			c := &socket{conn: conn, ctx: r.Context()}
			c.report(fault.Newf(fault.Invalid, "a wrong frame"), fatal)
			sent <- c.send(event{Type: "stdout", Data: "late"})
		}))
		defer server.Close()
		c, _, err := websocket.Dial(t.Context(), server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if got := <-sent; got != want {
			t.Errorf("fatal: %t: got %v, want %v", fatal, got, want)
		}
	}
}

// TestFirstFrame authenticates with the first frame, on every operation with a WebSocket.
func TestFirstFrame(t *testing.T) {
	w := newWorld(t)
	tried := 0
	for pattern, item := range w.server.OpenAPI().Paths {
		if item.Get == nil || item.Get.Metadata[isSocket] == nil {
			continue
		}
		path := strings.NewReplacer("{id}", w.create().ID, "{selector}", "greets").Replace(pattern)
		refused := map[string]string{"none": "unauthorized", "unknown": "unauthorized", "revoked": "unauthorized", "read": "forbidden", "foreign": "not_found"}
		if item.Get.Metadata[need] == store.RoleViewer {
			delete(refused, "read")
		}
		for key, want := range refused {
			c, _, err := w.try(path)
			w.check(err)
			c.send(`{"type":"auth","token":"` + w.keys[key] + `"}`)
			c.ends(want, websocket.StatusPolicyViolation)
			if _, r, err := w.try(path, keyHeader, w.keys[key]); err == nil || key != "none" && codeOf(r.StatusCode) != want {
				if key != "none" {
					t.Errorf("%s with the key %s in a header: %v", pattern, key, err)
				}
			}
			tried++
		}
		c, _, err := w.try(path)
		w.check(err)
		c.send(`{"type":"start","cmd":"exit","args":["0"]}`)
		c.ends("unauthorized", websocket.StatusPolicyViolation)
		c, _, err = w.try(path)
		w.check(err)
		c.send(`{"type":"auth","token":"` + w.keys["full"] + `"}`)
		if !strings.Contains(path, "processes") && !strings.Contains(path, "watch") {
			c.send(`{"type":"start","cmd":"exit","args":["0"]}`)
		}
		if e, _ := c.next(); e.PID == nil && e.Status == "" {
			t.Errorf("%s: %+v", pattern, e)
		}
		if got := w.call("full", http.MethodGet, path, nil, nil); got != http.StatusBadRequest {
			t.Errorf("%s without a WebSocket: got %d", pattern, got)
		}
	}
	if tried != 38 {
		t.Errorf("%d were tried", tried)
	}
}

// TestNoFirstFrame checks the limits for connections that send no key.
func TestNoFirstFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/v1/sandboxes/" + w.create().ID + "/pty"
	first, _, err := w.try(path)
	w.check(err)
	for range maxStrangers - 1 {
		_, _, err := w.try(path)
		w.check(err)
	}
	if _, r, err := w.try(path); err == nil || r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one too many: %v, %v", r, err)
	}
	c := w.dial("full", path, `{"type":"start"}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`)
	first.ends("unauthorized", websocket.StatusPolicyViolation)
}

// TestSocketOrigin checks that the cookie of a session counts only on pages of the server.
func TestSocketOrigin(t *testing.T) {
	w := newWorld(t)
	path := "/v1/sandboxes/" + w.create().ID + "/pty"
	cookie := w.session()
	for origin, want := range map[string]bool{w.url: true, "": false, "http://evil.example.com": false, "null": false, strings.Replace(w.url, "http:", "https:", 1): false} {
		for _, password := range []string{"", "Basic eA=="} { // browsers send the password of a proxy
			c, _, err := w.try(path, "Cookie", cookie, "Origin", origin, "Authorization", password)
			w.check(err)
			c.send(`{"type":"start"}`)
			if e, _ := c.next(); (e.Type == "started") != want {
				t.Errorf("origin %q, %q: %+v", origin, password, e)
			}
		}
	}
}

// session returns the cookie of a user of the team.
func (w *world) session() string {
	w.t.Helper()
	b := w.browser()
	if got, text := b.send(http.MethodPost, "/v1/auth/link", w.link()); got != http.StatusOK {
		w.t.Fatalf("got %d: %s", got, text)
	}
	u, err := url.Parse(w.url)
	w.check(err)
	return b.jar.Cookies(u)[0].String()
}

// TestRevokedKey checks that a connection ends after its key was removed.
func TestRevokedKey(t *testing.T) {
	w := newWorld(t)
	w.server.pingEvery, w.server.pongTime = 100*time.Millisecond, testenv.Patience
	c := w.dial("full", "/v1/sandboxes/"+w.create().ID+"/pty", `{"type":"start"}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`, `{"type":"ping"}`)
	w.removeKeys()
	c.endsAfterPings("unauthorized")
}

// removeKeys removes all keys of the team.
func (w *world) removeKeys() {
	w.t.Helper()
	all, err := w.store.Keys(w.t.Context(), w.team)
	w.check(err)
	for _, k := range all {
		w.check(w.store.RemoveKey(w.t.Context(), w.team, k.ID))
	}
}

// endsAfterPings checks that the server closes the connection after an error with a code. Before
// the error, the server may send only pings.
func (c *dialed) endsAfterPings(code string) {
	c.t.Helper()
	e, began := event{Type: "ping"}, time.Now()
	for e.Type == "ping" && time.Since(began) < testenv.Patience {
		e, _ = c.next()
	}
	if e.Code != code {
		c.t.Errorf("%+v", e)
	}
	c.ends("", websocket.StatusPolicyViolation)
}

// TestRevokedKeyAtTheLimit removes the key of a connection while its address is rate limited. The
// connection must still end.
func TestRevokedKeyAtTheLimit(t *testing.T) {
	w := newWorld(t)
	path := "/v1/sandboxes/" + w.create().ID + "/pty"
	now := time.Now()
	w.server.requests = newLimiter(1, 1, func() time.Time { return now })
	w.server.pingEvery, w.server.pongTime = 100*time.Millisecond, testenv.Patience
	c := w.dial("full", path, `{"type":"start"}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`, `{"type":"ping"}`)
	for _, want := range []int{401, 429} {
		if got := w.call("unknown", "GET", "/v1/sandboxes", nil, nil); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	w.removeKeys()
	c.endsAfterPings("unauthorized")
}

// TestDeadClients checks that the server disconnects a client that does not answer pings.
func TestDeadClients(t *testing.T) {
	w := newWorld(t)
	w.server.pingEvery, w.server.pongTime = 300*time.Millisecond, 300*time.Millisecond
	c := w.dial("full", "/v1/sandboxes/"+w.create().ID+"/exec/stream", `{"type":"start","cmd":"flood"}`)
	c.expect(`{"type":"start","pid":7}`)
	testenv.Eventually(w.t, "the program is killed", func() bool { return w.host.Killed() == 1 })
	if n := w.host.Printed(); n > 64<<20 {
		t.Errorf("the program printed %d bytes", n)
	}
}

// TestSlowReader checks that a program blocks if its client does not read.
func TestSlowReader(t *testing.T) {
	w := newWorld(t)
	c := w.dial("full", "/v1/sandboxes/"+w.create().ID+"/exec/stream", `{"type":"start","cmd":"flood"}`)
	c.expect(`{"type":"start","pid":7}`)
	last := int64(-1)
	testenv.Eventually(w.t, "the program stops", func() bool {
		now := w.host.Printed()
		same := now == last && now > 0
		last = now
		time.Sleep(200 * time.Millisecond)
		return same
	})
	if last > 32<<20 {
		t.Errorf("the program printed %d bytes", last)
	}
	for range 100 { // it goes on
		if e, closed := c.next(); e.Type != "stdout" {
			t.Fatalf("%+v, %d", e, closed)
		}
	}
}

// TestSocketShutdown checks that a shutdown closes all connections, even if a client does not read.
func TestSocketShutdown(t *testing.T) {
	w := newWorld(t)
	one := "/v1/sandboxes/" + w.create().ID
	c := w.dial("full", one+"/pty", `{"type":"start"}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`)
	waiting, _, err := w.try(one + "/pty")
	w.check(err)
	w.dial("full", one+"/exec/stream", `{"type":"start","cmd":"flood"}`).next()
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		w.server.Shutdown()
	}()
	c.ends("", websocket.StatusGoingAway)
	waiting.ends("", websocket.StatusGoingAway)
	<-done
	if took := time.Since(began); took > sendTimeout/2 { // without closeTimeout, it takes sendTimeout
		t.Errorf("it took %v", took)
	}
	if _, r, err := w.try(one+"/pty", keyHeader, w.keys["full"]); err == nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new connection: %v, %v", r, err)
	}
	w.server.Shutdown()
}

// TestChangesAreRecorded checks the entries in the audit log.
func TestChangesAreRecorded(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	one := "/v1/sandboxes/" + id
	w.dial("full", one+"/exec/stream", `{"type":"start","cmd":"exit","args":["0"]}`).next()
	w.dial("full", one+"/exec/stream", `{"type":"start","cmd":"unknown"}`).next()
	w.dial("full", one+"/pty", `{"type":"start"}`).next()
	w.dial("full", one+"/pty", `{"type":"connect","tag":"none"}`).next()
	w.upload(id, strings.NewReader(field("path", "/a")+field("file", "x")+"--x--"))
	w.upload(id, strings.NewReader(field("path", "/a")+field("file", "x")))
	w.call("full", "POST", one+"/files/rename", map[string]string{"old_path": "/a", "new_path": "/b"}, nil)
	w.call("full", "POST", one+"/files/rename", map[string]string{"old_path": "/a", "new_path": "/c"}, nil)
	found := map[string]int{}
	testenv.Eventually(w.t, "all is recorded", func() bool {
		all, err := w.control.Audits(t.Context(), control.Identity{Actor: control.Actor{TeamID: w.team}, Role: store.RoleOwner}, store.AuditQuery{Limit: 100})
		w.check(err)
		clear(found)
		for _, a := range all {
			if a.Subject == id {
				found[a.Action+" "+a.Result]++
				if a.ActorType != store.ActorKey || a.Address != "127.0.0.1" {
					t.Errorf("%+v", a)
				}
			}
		}
		return len(found) == 8
	})
	for _, want := range []string{"exec ok", "open_terminal ok", "open_terminal not_found", "write_file ok", "write_file invalid_argument", "rename_file ok", "rename_file not_found"} {
		if found[want] == 0 {
			t.Errorf("%q is not recorded: %v", want, found)
		}
	}
}

// FuzzFrames sends frames to a terminal and to a program. The server must answer each frame with
// frames, and then end the connection or continue.
func FuzzFrames(f *testing.F) {
	for _, text := range []string{`{"type":"start"}`, `{"type":"start","cmd":"exit","args":["1"]}`, `{"type":"input","data":"aA=="}`, `{"type":"resize","cols":1}`, `{`, "\xff", `{"type":"start","cmd":"bytes","args":["ff","!e2"]}`} {
		f.Add([]byte(text), []byte(text), true)
		f.Add([]byte(`{"type":"start","cmd":"wait"}`), []byte(text), false)
	}
	w := newWorld(f)
	one := "/v1/sandboxes/" + w.create().ID
	f.Fuzz(func(t *testing.T, first, second []byte, terminal bool) {
		path := one + "/exec/stream"
		if terminal {
			path = one + "/pty"
		}
		c, _, err := websocket.Dial(t.Context(), w.url+path, &websocket.DialOptions{HTTPHeader: http.Header{keyHeader: {w.keys["full"]}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		c.SetReadLimit(4 << 20)
		for _, text := range [][]byte{first, second, []byte(`{"type":"stop"}`)} { // the last one is wrong on a terminal
			if c.Write(t.Context(), websocket.MessageText, text) != nil {
				break
			}
		}
		for {
			_, text, err := c.Read(t.Context())
			if err != nil {
				var closed websocket.CloseError
				if !errors.As(err, &closed) || closed.Code == websocket.StatusInternalError {
					t.Errorf("%q, %q: %v", first, second, err)
				}
				return
			}
			var e event
			if err := json.Unmarshal(text, &e); err != nil || e.Type == "" || e.Code == "internal_error" {
				t.Errorf("%q, %q: got %s", first, second, text)
			}
		}
	})
}

// FuzzIncomplete checks that incomplete counts at most three bytes, and none if the text is valid.
func FuzzIncomplete(f *testing.F) {
	f.Add([]byte("a\xe2\x82"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := incomplete(text)
		if n < 0 || n > min(3, len(text)) {
			t.Errorf("%q: %d", text, n)
		}
		if s := string(text); strings.ToValidUTF8(s, "") == s && n != 0 {
			t.Errorf("%q is complete: %d", text, n)
		}
	})
}
