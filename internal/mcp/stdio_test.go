package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestResults(t *testing.T) {
	w := newWorld(t)
	c := w.client(t, nil)
	call := func(name string, args any) (*sdk.CallToolResult, error) {
		return c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	}
	r, err := call("echo", words{Text: "<a> & \u2028 ü"})
	if err != nil || r.IsError || r.StructuredContent.(map[string]any)["text"] != "<a> & \u2028 ü" {
		t.Fatalf("%+v, %v", r, err)
	}
	if text := r.Content[0].(*sdk.TextContent).Text; !strings.HasPrefix(text, `{"text":"<a> & `) {
		t.Error(text)
	}
	if r, err := call("echo", nil); err != nil || r.IsError {
		t.Errorf("without arguments: %+v, %v", r, err)
	}
	r, err = call("fail", nil)
	if f := failureOf(t, r, err); f.Kind != fault.NotFound || f.Hint != "look elsewhere" {
		t.Errorf("%+v", f)
	}
	r, err = call("panic", nil)
	if f := failureOf(t, r, err); f.Kind != fault.Internal || !strings.Contains(f.Error, "at the disco") {
		t.Errorf("%+v", f)
	}
	r, err = call("long", nil)
	if f := failureOf(t, r, err); f.Kind != fault.Exhausted || f.Hint != "ask for less" {
		t.Errorf("%+v", f)
	}
	r, err = call("echo", map[string]any{"number": strings.Repeat("x", 4_000_000)})
	if f := failureOf(t, r, err); f.Kind != fault.Invalid || len(f.Error) > 1000 {
		t.Errorf("4 MB of invalid arguments: got error %.200q of %d bytes", f.Error, len(f.Error))
	}
	r, err = call("echo", map[string]any{strings.Repeat("x", 1<<20): 1})
	if f := failureOf(t, r, err); f.Kind != fault.Invalid || len(f.Error) > 1000 {
		t.Errorf("a long name: %.200q, %d bytes", f.Error, len(f.Error))
	}
	if _, err := call("rm", nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("unknown tool: got %v", err)
	}
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	reported := make(chan string, 10)
	c := w.client(t, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		reported <- fmt.Sprint(r.Params.ProgressToken, " ", r.Params.Progress, " ", r.Params.Message)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.began
		cancel() // makes the client send a notification
	}()
	p := &sdk.CallToolParams{Name: "wait"}
	p.SetProgressToken("p1")
	if _, err := c.CallTool(ctx, p); err == nil {
		t.Error("the call was not cancelled")
	}
	<-w.ended
	if got := []string{<-reported, <-reported}; !slices.Equal(got, []string{"p1 1 one", "p1 2 two"}) || len(reported) > 0 {
		t.Errorf("%q", got)
	}
}

// TestBrokenLines checks that each malformed line gets exactly one error, and that the next call
// succeeds.
func TestBrokenLines(t *testing.T) {
	w := newWorld(t)
	r := w.raw(t)
	defer r.close()
	if a := r.says(t, initialize); a.Error != nil || a.Result["protocolVersion"] != "2025-06-18" {
		t.Fatalf("%+v", a)
	}
	for line, code := range map[string]int{
		`{"jsonrpc": `:                      -32700,
		`{"jsonrpc":"2.0","id":2} {}`:       -32700,
		"\x00\xff":                          -32700,
		`7`:                                 -32600,
		`{}`:                                -32600,
		`{"jsonrpc":"1.0","method":"x"}`:    -32600,
		`[]`:                                -32600,
		"[" + initialize + "]":              -32600,
		strings.Repeat(" ", MaxBody) + "{}": -32600,
		strings.Repeat("[", 1<<20):          -32700,
		`{"jsonrpc":"2.0","id":2,"method":"tools/fly"}`:                                       -32601,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`:                                      -32600,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}`:                          -32602,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":7}}`:                  -32602,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{}}}`: -32602,
		"\r\n \n" + `{"jsonrpc":"2.0","id":2,"method":"tasks/fly"}`:                           -32601,
	} {
		if a := r.says(t, line); a.Error == nil || a.Error.Code != code {
			t.Errorf("%.100q: %+v, %+v", line, a, a.Error)
		}
		if a := r.says(t, `{"jsonrpc":"2.0","id":"ü","method":"ping"}`+"\r"); a.ID != "ü" || a.Error != nil {
			t.Fatalf("after %.100q: %+v", line, a)
		}
	}
}

// TestIDs checks that each answer has the exact id of its call. If the call was refused, the id
// must be null.
func TestIDs(t *testing.T) {
	r := newWorld(t).raw(t)
	defer r.close()
	if a := r.says(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.ID != 1.0 || a.Error == nil || a.Error.Code != -32600 {
		t.Errorf("before initialize: %+v, %+v", a, a.Error)
	}
	r.says(t, initialize)
	for id, exact := range map[string]bool{
		`0`: true, `-7`: true, `9007199254740992`: true, `""`: true, `"1.5"`: true, `"\ud83d\ude00"`: true,
		`1.5`: false, `1.0`: false, `1e2`: false, `-0`: false, `9007199254740993`: false, `9223372036854775808`: false, `1e400`: false,
		`null`: false, `{}`: false, `[]`: false, `true`: false, `"\ud800"`: false,
	} {
		a := r.says(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		var want any
		if json.Unmarshal([]byte(id), &want); !exact {
			want = nil
		}
		if a.ID != want || (a.Error == nil) != exact || !exact && a.Error.Code != -32600 {
			t.Errorf("%s: %+v, %+v", id, a, a.Error)
		}
	}
	if a := r.says(t, strings.Replace(initialize, `"id":1`, `"id":"again"`, 1)); a.ID != "again" || a.Error == nil || a.Error.Code != -32600 {
		t.Errorf("a second initialize: %+v, %+v", a, a.Error)
	}
	for _, broken := range []string{`{"jsonrpc":"2.0","id":5,"method":7}`, `{"jsonrpc":"2.0","id":5}`, `{"jsonrpc":"1.0","id":5,"method":"ping"}`, `{"id":5,"method":"ping"}`} {
		if a := r.says(t, broken); a.ID != 5.0 || a.Error == nil || a.Error.Code != -32600 {
			t.Errorf("%s: %+v, %+v", broken, a, a.Error)
		}
	}
}

const wait = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`

// TestDisconnectDuringCall checks that calls are cancelled when the client's process ends or when
// the server shuts down.
func TestDisconnectDuringCall(t *testing.T) {
	for name, leave := range map[string]func(say io.Closer, hear io.Closer, shutDown func()){
		"client": func(say, hear io.Closer, _ func()) { say.Close(); hear.Close() },
		"server": func(_, _ io.Closer, shutDown func()) { shutDown() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			in, say := io.Pipe()
			hear, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer hear.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			served := make(chan error, 1)
			go func() { served <- w.ServeStdio(ctx, in, out) }()
			io.WriteString(say, initialize+"\n"+wait+"\n")
			<-w.began
			leave(say, hear, cancel)
			soon(t, w.ended)
			if err := <-served; err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(say, wait+"\n"); err == nil {
				t.Error("the server is still reading")
			}
		})
	}
}

// TestEndOfInput checks that a call that runs at the end of the input is finished and answered. A
// question to the user fails, and a call that runs for too long is cancelled and answered.
func TestEndOfInput(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{})
	w := newWorld(t,
		Bind("work", "", Sets, nil, func(ctx context.Context, _ struct{}, _ func(string)) (string, error) {
			began <- struct{}{}
			select {
			case <-ended:
				return "worked", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
		Bind("ask", "", Sets, nil, func(ctx context.Context, _ struct{}, _ func(string)) (string, error) {
			began <- struct{}{}
			<-ended
			answer, err := AskPerson(ctx, "really?")
			return fmt.Sprint("answer ", answer), err
		}),
	)
	asks := strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)
	for name, want := range map[string]string{"work": "worked", "ask": "answer 0", "wait": "canceled"} {
		t.Run(name, func(t *testing.T) {
			ended = make(chan struct{})
			patience, running := time.Hour, began
			if name == "wait" {
				patience, running = time.Millisecond, w.began
			}
			w.patience = patience
			r := w.raw(t)
			r.says(t, asks)
			io.WriteString(r, strings.Replace(wait, `"wait"`, strconv.Quote(name), 1)+"\n")
			<-running
			r.close()
			close(ended)
			for {
				var a struct {
					ID     any
					Method string
					Result struct{ Content []struct{ Text string } }
				}
				if err := r.answers.Decode(&a); err != nil {
					t.Fatal(err)
				}
				if a.Method != "" {
					continue
				}
				if a.ID != 2.0 || !strings.Contains(a.Result.Content[0].Text, want) {
					t.Errorf("%+v", a)
				}
				break
			}
			if err := <-r.served; err != nil {
				t.Error(err)
			}
		})
	}
}

func soon(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testenv.Patience):
		t.Fatal("the call is still running")
	}
}

// TestTools checks the annotations for each kind of tool. Clients use them to decide when they ask
// their user.
func TestTools(t *testing.T) {
	c := newWorld(t).client(t, nil)
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // read-only, idempotent, destructive, open world
		"echo": "true true false false", "fail": "false false true true", "panic": "false true false false", "long": "false false false false", "wait": "false true true false",
	}
	for _, tool := range listed.Tools {
		a := tool.Annotations
		if got := fmt.Sprint(a.ReadOnlyHint, a.IdempotentHint, *a.DestructiveHint, *a.OpenWorldHint); got != want[tool.Name] {
			t.Errorf("%s: %s", tool.Name, got)
		}
		schema, _ := json.Marshal(tool.InputSchema)
		if !strings.Contains(string(schema), `"default":7`) {
			t.Errorf("%s: %s", tool.Name, schema)
		}
	}
	if c.InitializeResult().Instructions != "how to" {
		t.Errorf("%+v", c.InitializeResult())
	}
}
