package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestServerErrors checks the error and the hint for each way that a server can fail.
func TestServerErrors(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for name, row := range map[string]struct {
		answer     http.HandlerFunc
		kind       fault.Kind
		says, hint string
	}{
		"no such model": {status(404, `{"error":{"message":"model \"small\" not found, try pulling it first","type":"api_error"}}`), fault.NotFound, `model "small" not found`, "ollama pull small"},
		"no such page":  {status(404, "404 page not found"), fault.NotFound, "it serves no chat completions", "/v1"},
		"no key":        {status(401, `{"error":"missing key"}`), fault.Permission, "missing key", "OPENAI_API_KEY"},
		"forbidden":     {status(403, ``), fault.Permission, "403", "OPENAI_API_KEY"},
		"busy":          {status(429, `{"error":{"message":"slow down"}}`), fault.Exhausted, "slow down", ""},
		"no tools":      {status(400, `{"error":{"message":"registry.ollama.ai/library/small does not support tools"}}`), fault.Unsupported, "does not support tools", "--model"},
		"broken":        {status(500, "<html>\x1b[2Joops\n\n"+strings.Repeat("x", 5000)), fault.Unavailable, "500 Internal Server Error: <html>", ""},
		"a web page":    {status(200, "<html>hello</html>"), fault.Unavailable, "not a chat completion", "--base-url"},
		"nothing":       {status(200, ""), fault.Unavailable, "not a chat completion", "--base-url"},
		"no choice":     {status(200, `{"choices": []}`), fault.Unavailable, "it has no message", "--base-url"},
		"no message":    {status(200, `{"choices": [{}]}`), fault.Unavailable, "it has no message", "--base-url"},
		"another form":  {status(200, `{"choices": [{"message": {"content": 7}}]}`), fault.Unavailable, "not a chat completion", "--base-url"},
		"deep":          {status(200, strings.Repeat(`[`, 100_000)), fault.Unavailable, "not a chat completion", "--base-url"},
		"huge": {func(w http.ResponseWriter, r *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return // the client has disconnected
				}
			}
		}, fault.Exhausted, "the answer has more than", ""},
		"huge error": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for chunk := []byte(strings.Repeat("x", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, fault.Unavailable, "500", ""},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"choices": [`)
		}, fault.Unavailable, "no model server answers: unexpected EOF", "ollama serve"},
		"hangs up": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, fault.Unavailable, "no model server answers", "ollama serve"},
		"many headers": {func(w http.ResponseWriter, r *http.Request) {
			for i := range 1000 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 100))
			}
		}, fault.Unavailable, "no model server answers", "ollama serve"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(row.answer)
			defer server.Close()
			_, _, err := talk(t, OllamaRequest{BaseURL: server.URL + "/v1", Model: "small"})
			if fault.KindOf(err) != row.kind || !strings.Contains(fmt.Sprint(err), row.says) || !strings.Contains(fault.HintOf(err), row.hint) {
				t.Errorf("%s: %v, hint %q", fault.KindOf(err), err, fault.HintOf(err))
			}
			if text := fmt.Sprint(err); len(text) > 600 || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("the error is %d bytes: %q", len(text), text)
			}
		})
	}
	// No server listens on this port.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, _, err = talk(t, OllamaRequest{BaseURL: "http://" + l.Addr().String(), Model: "small"})
	if fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) != "ollama serve, and ollama pull small; or --base-url URL of another OpenAI-compatible server" {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// TestNoRedirect checks that the client does not follow redirects. They would leak the key.
func TestNoRedirect(t *testing.T) {
	var reached atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/chat/completions", code))
		_, _, err := talk(t, OllamaRequest{BaseURL: server.URL, Key: pyro.NewSecretValue("sk-1")})
		server.Close()
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), "the server redirects") {
			t.Errorf("%d: %v", code, err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("it was followed %d times", n)
	}
}

func TestBaseURLs(t *testing.T) {
	for _, base := range []string{"127.0.0.1:11434", "ftp://127.0.0.1/v1", "http://", "http://user:word@127.0.0.1/v1", "http://127.0.0.1/v1?key=word", "http://127.0.0.1/#word", "http://[", "/v1"} {
		_, _, err := talk(t, OllamaRequest{BaseURL: base})
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(fault.HintOf(err), "--base-url ") || strings.Contains(err.Error(), "word@") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestAskTimesOut(t *testing.T) {
	waiting := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(waiting)
		<-r.Context().Done()
	}))
	defer server.Close()
	e, err := openEndpoint(server.URL, "small", pyro.SecretValue{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-waiting
		cancel(errors.New("enough"))
	}()
	began := time.Now()
	if _, err := e.ask(ctx, nil, nil); fault.KindOf(err) != fault.Canceled || !strings.Contains(err.Error(), "enough") || time.Since(began) > time.Minute {
		t.Errorf("%s: %v", fault.KindOf(err), err)
	}
}

func TestMessageForms(t *testing.T) {
	m, err := readAnswer([]byte(`{"choices": [{"message": {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}],
		"tool_calls": [{"id": "1", "function": {"name": "vm_run", "arguments": {"command": "x"}}}]}}]}`))
	if err != nil || m.Content != "ab" || m.Role != "assistant" || m.CallID != "" || m.ToolCalls[0].Function.Arguments != `{"command": "x"}` {
		t.Errorf("%+v, %v", m, err)
	}
}

// FuzzAnswer checks that each answer leads to an error, or to a message that can be sent back.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"choices": [{"message": {"role": "assistant", "content": "hello"}}]}`, `{"choices": [{"message": {"content": null, "tool_calls": [{"function": {"name": "vm_run", "arguments": "{}"}}]}}]}`,
		`{"choices": [{"message": {"content": [{"text": "x"}]}}]}`, `{"choices": [{"message": {"content": "{\"name\": \"vm_run\", \"parameters\": {}}"}}]}`, "{", "[]", "",
		"{\"choices\": [{\"message\": {\"content\": \"```json\\n{\\\"name\\\": \\\"vm_run\\\", \\\"arguments\\\": {}}\\n```\"}}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readAnswer(b)
		if err != nil {
			return
		}
		sent, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("it can't be sent back: %v", err)
		}
		if again, err := readAnswer([]byte(`{"choices": [{"message": ` + string(sent) + `}]}`)); err != nil || again.Content != m.Content || len(again.ToolCalls) != len(m.ToolCalls) {
			t.Errorf("%s is read as %+v, %v", sent, again, err)
		}
		if args, ok := callIn(string(m.Content), "vm_run"); ok && !json.Valid([]byte(args)) {
			t.Errorf("a call with %q", args)
		}
		errorText(b)
	})
}
