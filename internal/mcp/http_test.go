package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

const token = "0123456789abcdef"

// site is a server that listens on an HTTP address.
type site struct {
	*world
	*httptest.Server
}

func newSite(t *testing.T) site {
	t.Helper()
	w := newWorld(t)
	s := site{w, httptest.NewServer(w.Handler(secret.New(token)))}
	t.Cleanup(func() {
		w.Close()
		s.Server.Close()
	})
	return s
}

// ask sends a request in the form that clients use. The callback can modify the request first.
func (s site) ask(t *testing.T, method, body string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if change != nil {
		change(r)
	}
	a, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a
}

// answer returns the only message in an event stream.
func answer(t *testing.T, a *http.Response) (text string) {
	t.Helper()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return data
		}
		text += lines.Text()
	}
	return text
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestRefused(t *testing.T) {
	s := newSite(t)
	for name, row := range map[string]struct {
		method, body string
		change       func(*http.Request)
		status       int
	}{
		"right":                     {"POST", initialize, nil, 200},
		"bearer in lower case":      {"POST", initialize, header("Authorization", "bearer "+token), 200},
		"no token":                  {"POST", initialize, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"another token":             {"POST", initialize, header("Authorization", "Bearer 0123456789abcdeF"), 401},
		"a longer token":            {"POST", initialize, header("Authorization", "Bearer "+token+"0"), 401},
		"another scheme":            {"POST", initialize, header("Authorization", "Basic "+token), 401},
		"the token in the address":  {"POST", initialize, func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + token }, 401},
		"GET without a token":       {"GET", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"foreign origin":            {"POST", initialize, header("Origin", "https://evil.example"), 403},
		"foreign origin, to read":   {"GET", "", header("Origin", "https://evil.example"), 403},
		"no origin":                 {"POST", initialize, header("Origin", "null"), 403},
		"a page of another site":    {"POST", initialize, header("Sec-Fetch-Site", "cross-site"), 403},
		"rebinding":                 {"POST", initialize, func(r *http.Request) { r.Host = "evil.example" }, 403},
		"rebinding with its origin": {"POST", initialize, func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("Origin", "http://evil.example") }, 403},
		"localhost":                 {"POST", initialize, func(r *http.Request) { r.Host = "localhost:1" }, 200},
		"too much":                  {"POST", `{"a": "` + strings.Repeat("x", MaxBody) + `"}`, nil, 413},
		"too much, stateless":       {"POST", `{"a": "` + strings.Repeat("x", MaxBody) + `"}`, header("Mcp-Protocol-Version", statelessSince), 413},
		"broken":                    {"POST", `{"jsonrpc":`, nil, 400},
		"nothing":                   {"POST", ``, nil, 400},
		"a batch":                   {"POST", "[" + initialize + "]", header("Mcp-Protocol-Version", "2025-06-18"), 400},
		"a form":                    {"POST", initialize, header("Content-Type", "text/plain"), 415},
		"an invalid version":        {"POST", initialize, header("Mcp-Protocol-Version", "2024-01-01"), 400},
		"a future version":          {"POST", initialize, header("Mcp-Protocol-Version", "2099-01-01"), 400},
		"GET without a session":     {"GET", "", nil, 400},
		"GET of an unknown session": {"GET", "", header("Mcp-Session-Id", "x"), 404},
		"PUT":                       {"PUT", initialize, nil, 405},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.ask(t, row.method, row.body, row.change)
			text := answer(t, a)
			if a.StatusCode != row.status || row.status != 200 && (text == "" || len(text) > 300 || strings.Contains(text, token)) {
				t.Errorf("%s: %s", a.Status, text)
			}
			if (a.StatusCode == 401) != (a.Header.Get("WWW-Authenticate") != "") {
				t.Errorf("%v", a.Header)
			}
		})
	}
}

// TestAnswersOverHTTP checks that each POST gets a JSON-RPC answer that has the id of the request.
func TestAnswersOverHTTP(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	message := func(id, rest string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":` + rest + `}` }
	for _, row := range []struct {
		body    string
		id      string
		code    float64
		status  int
		session string
	}{
		{message(`1`, `"ping"`), `1`, 0, 200, session},
		{message(`"1.5"`, `"ping"`), `"1.5"`, 0, 200, session},
		{message(`-9007199254740992`, `"ping"`), `-9007199254740992`, 0, 200, session},
		{message(`1.5`, `"ping"`), `null`, -32600, 400, session},
		{message(`1e3`, `"ping"`), `null`, -32600, 400, session},
		{message(`9007199254740993`, `"ping"`), `null`, -32600, 400, session},
		{message(`9223372036854775808`, `"ping"`), `null`, -32600, 400, session},
		{message(`null`, `"ping"`), `null`, -32600, 400, session},
		{message(`{}`, `"ping"`), `null`, -32600, 400, session},
		{message(`[1]`, `"ping"`), `null`, -32600, 400, session},
		{message(`true`, `"ping"`), `null`, -32600, 400, session},
		{message(`"\ud800"`, `"ping"`), `null`, -32600, 400, session},
		{`[` + message(`1.5`, `"ping"`) + `]`, `null`, -32600, 400, session},
		{`[]`, `null`, -32600, 400, session},
		{`[`, `null`, -32700, 400, session},
		{`{"jsonrpc":`, `null`, -32700, 400, session},
		{`{"jsonrpc":"1.0","id":5,"method":"ping"}`, `5`, -32600, 400, session},
		{`{"jsonrpc":"2.0","id":5,"method":7}`, `5`, -32600, 400, session},
		{`{"jsonrpc":"2.0","id":5}`, `5`, -32600, 400, session},
		{`{"jsonrpc":"2.0","method":"tools/list"}`, `null`, -32600, 400, session},
		{message(`2`, `"tools/fly"`), `2`, -32601, 200, session},
		{message(`2`, `""`), `2`, -32601, 200, session},
		{message(`2`, `"tools/call"`), `2`, -32600, 400, session},
		{message(`2`, `"tools/call","params":{"name":7}`), `2`, -32602, 200, session},
		{strings.Replace(initialize, `"id":1`, `"id":"again"`, 1), `"again"`, -32600, 200, session},
		{message(`2`, `"tools/fly"`), `2`, -32601, 200, ""},
		{message(`2`, `"tools/list"`), `2`, -32600, 400, ""},
	} {
		a := s.ask(t, "POST", row.body, func(r *http.Request) {
			if row.session != "" {
				r.Header.Set("Mcp-Session-Id", row.session)
			}
		})
		text := answer(t, a)
		var said struct {
			ID    json.RawMessage
			Error struct {
				Code    float64
				Message string
			}
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil || a.StatusCode != row.status || string(said.ID) != row.id || said.Error.Code != row.code || (row.code != 0) != (said.Error.Message != "") {
			t.Errorf("%s: %s: %s, %v", row.body, a.Status, text, err)
		}
	}
}

// TestMethods checks that the list of methods is equal to the methods that the SDK serves. The
// server would refuse a method that is missing in the list.
func TestMethods(t *testing.T) {
	s := newSite(t)
	session := s.session(t)
	for _, method := range methods {
		id := `"id":7,`
		if strings.HasPrefix(method, "notifications/") {
			id = ""
		}
		a := s.ask(t, "POST", `{"jsonrpc":"2.0",`+id+`"method":"`+method+`","params":{}}`, header("Mcp-Session-Id", session))
		if text := answer(t, a); strings.Contains(text, "there is no method") || strings.Contains(text, "not handled") {
			t.Errorf("%s: %s: %s", method, a.Status, text)
		}
	}
}

// bearer adds the bearer token to each request.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.RoundTripper.RoundTrip(r)
}

// TestProtocols checks that the SDK's client works over the stateless protocol and over an older
// protocol.
func TestProtocols(t *testing.T) {
	s := newSite(t)
	for _, version := range []string{"2025-11-25", statelessSince} {
		reported := make(chan string, 10)
		c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { reported <- r.Params.Message },
		}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: bearer{s.Client().Transport}}},
			&sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("%s instead of %s", got, version)
		}
		if l, err := c.ListTools(t.Context(), nil); err != nil || len(l.Tools) != 5 {
			t.Errorf("%s: %+v, %v", version, l, err)
		}
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: words{Text: strings.Repeat("x", 5<<20)}})
		if f := failureOf(t, r, err); f.Kind != fault.Exhausted {
			t.Errorf("5 MB: %+v", f)
		}
		r, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "panic"})
		if f := failureOf(t, r, err); f.Kind != fault.Internal {
			t.Errorf("%+v", f)
		}
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: words{Number: i}})
				if err != nil || r.StructuredContent.(map[string]any)["number"] != float64(i) {
					t.Errorf("%d: %+v, %v", i, r, err)
				}
			})
		}
		calls.Wait()
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "rm"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("unknown tool: got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-s.began
			if got := <-reported; got != "one" {
				t.Errorf("%s: progress %q", version, got)
			}
			cancel()
		}()
		p := &sdk.CallToolParams{Name: "wait"}
		p.SetProgressToken(1)
		if _, err := c.CallTool(ctx, p); err == nil {
			t.Error("the call was not cancelled")
		}
		soon(t, s.ended)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	testenv.Eventually(t, "no session is left", func() bool { return s.Sessions() == 0 })
}

// session starts a session in the older protocol and returns its ID.
func (s site) session(t *testing.T) string {
	t.Helper()
	a := s.ask(t, "POST", initialize, nil)
	answer(t, a)
	return a.Header.Get("Mcp-Session-Id")
}

// TestDisconnect checks in both protocols that calls are cancelled when their connection closes.
func TestDisconnect(t *testing.T) {
	s := newSite(t)
	id := s.session(t)
	for _, row := range []struct {
		meta   string
		header http.Header
	}{
		{"", http.Header{"Mcp-Session-Id": {id}}},
		{`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`,
			http.Header{"Mcp-Protocol-Version": {statelessSince}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"wait"}}},
	} {
		ctx, cut := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"`+row.meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"*/*"}}
		for k, v := range row.header {
			r.Header[k] = v
		}
		go func() {
			select {
			case <-s.began:
			case <-time.After(testenv.Patience):
			}
			cut()
		}()
		a, err := s.Client().Do(r)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(a.Body)
			a.Body.Close()
			if err == nil {
				t.Fatalf("%v: %s: %s", row.header, a.Status, text)
			}
		}
		soon(t, s.ended)
	}
}

// TestFlood checks that the numbers of concurrent requests and of sessions are limited.
func TestFlood(t *testing.T) {
	s := newSite(t)
	id := s.session(t)
	var statuses [600]atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 2 * maxRequests {
		clients.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			r.Header = http.Header{"Authorization": {"Bearer " + token}, "Accept": {"text/event-stream"}, "Mcp-Session-Id": {id}}
			if i%2 == 0 { // half of the requests open a stream
				r.Header.Set("Mcp-Session-Id", s.session(t))
			}
			a, err := s.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			statuses[a.StatusCode].Add(1)
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
		})
	}
	testenv.Eventually(t, "all requests are answered", func() bool {
		var answered int64
		for i := range statuses {
			answered += statuses[i].Load()
		}
		return answered == 2*maxRequests
	})
	end()
	clients.Wait()
	if statuses[200].Load() == 0 || statuses[200].Load() > maxRequests || statuses[409].Load() == 0 {
		t.Errorf("%d streams, %d conflicts, %d without a place", statuses[200].Load(), statuses[409].Load(), statuses[503].Load())
	}
	for s.Sessions() < maxSessions {
		s.session(t)
	}
	if a := s.ask(t, "POST", initialize, nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("session beyond the limit: got %s", a.Status)
	}
	if a := s.ask(t, "DELETE", "", header("Mcp-Session-Id", id)); a.StatusCode != 204 {
		t.Errorf("%s", a.Status)
	}
	if s.session(t) == "" {
		t.Error("a request was refused although a slot is free")
	}
}

// FuzzHandler sends arbitrary requests that have the valid token.
func FuzzHandler(f *testing.F) {
	w := NewServer("pyro", "1", "", []Tool{
		Bind("echo", "Give the text back.", Reads, []Arg{String("text", "").Require(), Integer("number", "", 0, 100), StringMap("pairs", ""), Objects("list", "", String("name", "").Require())},
			func(_ context.Context, req struct {
				Text   string              `json:"text"`
				Number int                 `json:"number"`
				Pairs  map[string]string   `json:"pairs"`
				List   []map[string]string `json:"list"`
			}, report func(string)) (any, error) {
				report(req.Text)
				return req, nil
			}),
	})
	handler := w.Handler(secret.New(token))
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	f.Add("POST", statelessSince, "", call)
	f.Add("POST", "2025-03-26", "", "["+initialize+","+call+"]")
	f.Add("POST", "", "", initialize)
	f.Add("POST", "", "x", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	f.Add("GET", "2025-11-25", "x", "")
	f.Add("DELETE", "", "", "\x00")
	f.Fuzz(func(t *testing.T, method, version, session, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(body))
		r.Method = method
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"*/*"},
			"Mcp-Protocol-Version": {version}, "Mcp-Session-Id": {session}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
		a := httptest.NewRecorder()
		handler.ServeHTTP(a, r)
		if ctx.Err() != nil {
			t.Errorf("%q %q: no answer", method, body)
		}
		if text := a.Body.String(); a.Code >= 500 || strings.Contains(text, "goroutine ") || strings.HasPrefix(a.Header().Get("Content-Type"), "application/json") && !json.Valid([]byte(text)) {
			t.Errorf("%d: %s", a.Code, text)
		}
		w.Close() // closes the session that this request started
	})
}
