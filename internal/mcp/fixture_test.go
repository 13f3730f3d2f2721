package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp/mcptest"
)

// world is a server that has tools for tests.
type world struct {
	*Server
	began, ended chan struct{} // receive one value per call of the tool wait
}

type words struct {
	Text   string `json:"text"`
	Number int    `json:"number"`
}

// newWorld starts a server with additional tools. At the end of the test, it checks for leaked
// goroutines.
func newWorld(t testing.TB, more ...Tool) *world {
	t.Helper()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard the logs of panics
	before := goleak.IgnoreCurrent()
	w := &world{began: make(chan struct{}, 1000), ended: make(chan struct{}, 1000)}
	text := []Arg{String("text", ""), Integer("number", "", 0, 100).Default(7)}
	w.Server = NewServer("pyro", "1", "how to", append(more, []Tool{
		Bind("echo", "Give the text back.", Reads, text, func(_ context.Context, req words, _ func(string)) (words, error) { return req, nil }),
		Bind("fail", "Fail.", Runs, text, func(context.Context, words, func(string)) (any, error) {
			return nil, fault.New(fault.NotFound, "ws-1", "", "it is not there").WithHint("look elsewhere")
		}),
		Bind("panic", "Panic.", Sets, text, func(context.Context, words, func(string)) (any, error) { panic("at the disco") }),
		Bind("long", "Give much.", Adds, text, func(context.Context, words, func(string)) (words, error) {
			return words{Text: strings.Repeat("x", MaxResult)}, nil
		}),
		Bind("wait", "Wait for the end.", Replaces, text, func(ctx context.Context, _ words, report func(string)) (any, error) {
			report("one")
			report("one")
			report("two")
			w.began <- struct{}{}
			<-ctx.Done()
			w.ended <- struct{}{}
			return nil, fault.Wrap(ctx.Err(), "wait", "")
		}),
	}...))
	t.Cleanup(func() {
		w.Close()
		goleak.VerifyNone(t, before)
	})
	return w
}

// client connects the SDK's client to the server.
func (w *world) client(t *testing.T, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.Client(t, w.ServeStdio, o)
}

// raw is a client that sends and receives lines without the SDK.
type raw struct {
	io.Writer
	answers *json.Decoder
	close   func()
	served  chan error
}

func (w *world) raw(t *testing.T) *raw {
	t.Helper()
	in, say := io.Pipe()
	hear, out := io.Pipe()
	r := &raw{say, json.NewDecoder(hear), func() { say.Close() }, make(chan error, 1)}
	go func() { r.served <- w.ServeStdio(t.Context(), in, out) }()
	return r
}

// says sends lines to the server and returns the next answer.
func (r *raw) says(t *testing.T, text string) (answer struct {
	ID     any
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
	}
}) {
	t.Helper()
	if _, err := io.WriteString(r, text+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.answers.Decode(&answer); err != nil {
		t.Fatalf("%.100q: %v", text, err)
	}
	return answer
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func failureOf(t *testing.T, r *sdk.CallToolResult, err error) failure {
	t.Helper()
	if err != nil || !r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	var f failure
	text, _ := json.Marshal(r.StructuredContent)
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if said := r.Content[0].(*sdk.TextContent).Text; !strings.HasPrefix(said, f.Error) || strings.Contains(said, "goroutine") {
		t.Errorf("%q, but %+v", said, f)
	}
	return f
}
