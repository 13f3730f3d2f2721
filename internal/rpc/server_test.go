package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestAnswers(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	p.call(1, "echo", `{"text":"<a> & \u2028 ü","list":[{"name":"n"}]}`)
	if h := p.receive(); h.ID != 1.0 || h.Error != nil || h.Result.(map[string]any)["text"] != "<a> & \u2028 ü" {
		t.Errorf("%+v", h)
	}
	p.says(`{"jsonrpc":"2.0","id":"ü","method":"echo"}` + "\r")
	if h := p.receive(); h.ID != "ü" || h.Error != nil {
		t.Errorf("%+v", h)
	}
	p.call(5, "echo", `{"text":"a\ud800"}`)
	if h := p.receive(); h.Error == nil || h.Error.Code != codeParams || !strings.Contains(h.Error.Message, `the parameter "text" must be text: it has the lone surrogate \ud800`) {
		t.Errorf("%+v", h)
	}
	p.call(2, "fail", "null")
	if h := p.receive(); *h.Error != (failure{codeFailed, `look "ws-1": it is not there`, details{fault.NotFound, "look", "ws-1", "look elsewhere"}}) {
		t.Errorf("%+v", h.Error)
	}
	p.call(3, "panic", "{}")
	if h := p.receive(); h.Error.Code != codeInternal || h.Error.Data.Kind != fault.Internal || !strings.Contains(h.Error.Message, "at the disco") {
		t.Errorf("%+v", h.Error)
	}
	p.call(4, "odd", "{}")
	if h := p.receive(); h.ID != 4.0 || h.Error == nil || h.Error.Data.Kind != fault.Internal {
		t.Errorf("%+v", h)
	}
}

// TestBrokenLines checks that each malformed line gets exactly one error, and that the next call
// succeeds.
func TestBrokenLines(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	for line, code := range map[string]int{
		`{"jsonrpc": `:                codeParse,
		`{"jsonrpc":"2.0","id":2} {}`: codeParse,
		"\x00\xff":                    codeParse,
		"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\",\"params\":{\"text\":\"\xff\"}}": codeParse,
		`7`:    codeRequest,
		`{}`:   codeRequest,
		`null`: codeRequest,
		`{"jsonrpc":"1.0","id":2,"method":"echo"}`:                                    codeRequest,
		`{"jsonrpc":"2.0","id":2,"method":7}`:                                         codeRequest,
		`{"jsonrpc":"2.0","id":2,"result":{}}`:                                        codeRequest,
		`{"jsonrpc":"2.0","id":null,"method":"echo"}`:                                 codeRequest,
		`{"jsonrpc":"2.0","id":{},"method":"echo"}`:                                   codeRequest,
		`{"jsonrpc":"2.0","id":true,"method":"echo"}`:                                 codeRequest,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"echo"}`: codeRequest,
		`[]`: codeRequest,
		`[{"jsonrpc":"2.0","id":1,"method":"echo"}]`:                               codeRequest,
		strings.Repeat(" ", MaxMessage) + "{}":                                     codeRequest,
		strings.Repeat("[", 1<<20):                                                 codeParse,
		`{"jsonrpc":"2.0","id":2,"method":"fly"}`:                                  codeMethod,
		`{"jsonrpc":"2.0","id":2,"method":"cancel"}`:                               codeMethod,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":[]}`:                     codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":"x"}`:                    codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"Text":"x"}}`:           codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"Hidden":1}}`:           codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"number":"x"}}`:         codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"number":1.5}}`:         codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"number":1e99}}`:        codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"list":[{"nam":"x"}]}}`: codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"stream":1}}`:           codeParams,
		`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"window":-1}}`:          codeParams,
	} {
		p.says(line)
		if h := p.receive(); h.Error == nil || h.Error.Code != code || h.Error.Data.Kind == "" || len(h.Error.Message) > 500 {
			t.Errorf("%.100q: %+v, %+v", line, h, h.Error)
		}
		p.says("\n \n" + `{"jsonrpc":"2.0","method":"fly"}` + "\n" + `{"jsonrpc":"2.0","method":"cancel","params":[]}`) // these lines get no answer
		p.call(3, "echo", "{}")
		if h := p.receive(); h.ID != 3.0 || h.Error != nil {
			t.Fatalf("after %.100q: %+v", line, h)
		}
	}
}

// TestIDs checks that each answer has exactly the same id as its call, byte for byte. If the
// message was refused, the id must be null.
func TestIDs(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	for id, exact := range map[string]bool{
		`0`: true, `-0`: true, `1.5`: true, `1e2`: true, `9007199254740993`: true, `9223372036854775808`: true, `1e400`: true, `""`: true, `"\ud800"`: true,
		`null`: false, `{}`: false, `[]`: false, `true`: false,
	} {
		for method, code := range map[string]int{`"echo"`: 0, `"fly"`: codeMethod, `7`: codeRequest} {
			p.says(`{"jsonrpc":"2.0","method":` + method + `,"id":` + id + `}`)
			var said struct {
				ID    json.RawMessage
				Error *failure
			}
			if err := p.reported.Decode(&said); err != nil {
				t.Fatal(err)
			}
			switch {
			case exact && (string(said.ID) != id || code != 0 && said.Error.Code != code):
				t.Errorf("%s, %s: %s, %+v", id, method, said.ID, said.Error)
			case !exact && (string(said.ID) != "null" || said.Error.Code != codeRequest):
				t.Errorf("%s, %s: %s, %+v", id, method, said.ID, said.Error)
			}
		}
	}
}

// TestErrorsHideValues checks that errors about params contain names but no values, because values
// can be secret.
func TestErrorsHideValues(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	for params, says := range map[string]string{
		`{"text":7777777}`:                 "echo: text must be a string",
		`{"number":"hunter2"}`:             "echo: number must be a whole number",
		`{"list":["hunter2"]}`:             "echo: list must be an object",
		`{"list":[{"name":7777777}]}`:      "echo: list.name must be a string",
		`{"pairs":{"A":7777777}}`:          "must be a string",
		`{"pairs":"hunter2"}`:              "echo: pairs must be an object",
		`{"list":[{"nome":"hunter2"}]}`:    `echo: unknown parameter "nome"`,
		`{"texts":"hunter2"}`:              `echo: unknown parameter "texts"`,
		`{"text":"hunter2","stream":"no"}`: "echo: stream must be true or false",
	} {
		p.call(1, "echo", params)
		h := p.receive()
		if h.Error == nil || !strings.Contains(h.Error.Message, says) || strings.Contains(h.Error.Message, "hunter2") || strings.Contains(h.Error.Message, "777") {
			t.Errorf("%s: %+v", params, h.Error)
		}
	}
}

// TestTolerantParams checks that an integral number is an integer, and that null is a missing
// parameter.
func TestTolerantParams(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	p.call(1, "echo", `{"text":null,"number":30.0,"pairs":null,"list":null,"stream":null,"window":1e3}`)
	if h := p.receive(); h.Error != nil || !reflect.DeepEqual(h.Result, map[string]any{"number": 30.0}) {
		t.Errorf("%+v, %+v", h, h.Error)
	}
	p.call(1, "echo", `{"number":1.5}`)
	if h := p.receive(); h.Error == nil || !strings.Contains(h.Error.Message, "echo: number must be a whole number") {
		t.Errorf("%+v, %+v", h, h.Error)
	}
}

// TestMaxCalls checks that a call is refused if the maximum number of concurrent calls is already
// running.
func TestMaxCalls(t *testing.T) {
	w := newWorld(t)
	p := w.connect(t.Context(), t)
	for i := range MaxCalls {
		p.call(i, "wait", "{}")
	}
	for range MaxCalls {
		soon(t, w.began)
	}
	p.call(MaxCalls, "echo", "{}")
	if h := p.receive(); h.Error == nil || h.Error.Data.Kind != fault.Exhausted || h.Error.Data.Hint == "" {
		t.Errorf("%+v", h)
	}
	p.call(7, "echo", "{}")
	if h := p.receive(); h.Error == nil || h.Error.Code != codeRequest {
		t.Errorf("an id that is in use: %+v", h)
	}
	for _, id := range []int{7, 8} {
		p.says(fmt.Sprintf(`{"jsonrpc":"2.0","method":"cancel","params":{"id":%d}}`, id))
		if h := p.receive(); h.ID != float64(id) || h.Error == nil || h.Error.Data.Kind != fault.Canceled {
			t.Errorf("%+v", h)
		}
		if err := soon(t, w.ended); err != errCanceled {
			t.Error(err)
		}
	}
	p.call(7, "echo", `{"text":"again"}`)
	if h := p.receive(); h.ID != 7.0 || h.Error != nil {
		t.Errorf("an id that was used: %+v", h)
	}
}

// TestEndOfInput checks that calls that were sent before the end of the input are finished and
// answered, even if their output waits for an acknowledgement.
func TestEndOfInput(t *testing.T) {
	w := newWorld(t)
	w.patience, w.drain = time.Hour, patience
	p := w.connect(t.Context(), t)
	p.call(1, "work", "{}")
	p.call(2, "print", `{"text":"0123456789","number":100,"stream":true,"window":1}`)
	soon(t, w.began)
	soon(t, w.began)
	p.say.Close()
	for h := p.receive(); h.ID != 2.0; h = p.receive() {
		if h.Method != "output" {
			t.Fatalf("%+v", h)
		}
	}
	close(w.finish)
	if h := p.receive(); h.ID != 1.0 || h.Result != "worked" {
		t.Errorf("%+v", h)
	}
	p.served <- soon(t, p.served)
}

// TestKilledClient checks that the calls of a client end when its process has ended.
func TestKilledClient(t *testing.T) {
	w := newWorld(t)
	w.patience = time.Hour
	in, say := io.Pipe()
	hear, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(t.Context(), in, out) }()
	io.WriteString(say, `{"jsonrpc":"2.0","id":1,"method":"wait"}`+"\n")
	soon(t, w.began)
	say.Close()
	hear.Close()
	if err := soon(t, w.ended); err != errDisconnected {
		t.Error(err)
	}
	if err := soon(t, served); err != nil {
		t.Error(err)
	}
}

// TestDisconnect checks that calls end when the client closes its input but the time limit is over,
// or when it stops reading. They must also end when the server shuts down.
func TestDisconnect(t *testing.T) {
	for name, disconnect := range map[string]func(p *peer, cancel func()){
		"no more input": func(p *peer, _ func()) { p.say.Close() },
		"no reader":     func(p *peer, _ func()) { p.hear.Close(); p.call(2, "echo", "{}") },
		"ended":         func(_ *peer, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if name == "no more input" {
				w.drain = patience
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := w.connect(ctx, t)
			p.call(1, "wait", "{}")
			soon(t, w.began)
			disconnect(p, cancel)
			kind := fault.Canceled
			if name == "no more input" {
				kind = fault.Timeout
			}
			if err := soon(t, w.ended); fault.KindOf(err) != kind {
				t.Error(err)
			}
			if name == "no more input" { // a client that still reads gets the remaining answers
				if h := p.receive(); h.ID != 1.0 || h.Error == nil || h.Error.Data.Kind != kind {
					t.Errorf("%+v", h)
				}
			}
			p.served <- soon(t, p.served)
		})
	}
}

// TestClientThatNeverReads checks that Serve returns even if the client neither reads nor
// disconnects.
func TestClientThatNeverReads(t *testing.T) {
	w := newWorld(t)
	p := w.connect(t.Context(), t)
	p.call(1, "print", `{"text":"x","number":1000000,"stream":true}`)
	soon(t, w.began)
	p.say.Close()
	if err := soon(t, w.ended); err == nil {
		t.Error("all output was accepted")
	}
	p.served <- soon(t, p.served)
}

func TestProgress(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	p.call(1, "tell", `{"stream":true}`)
	reported := map[string]int{}
	for {
		h := p.receive()
		if h.Result != nil || h.Error != nil {
			break
		}
		if h.Method != "progress" || h.Params.ID != 1.0 || h.Params.Phase == "one" && h.Params.Total != 999 {
			t.Fatalf("%+v", h)
		}
		reported[h.Params.Phase] = reported[h.Params.Phase]*1000 + int(h.Params.Done) + 1
	}
	// Events in quick succession are merged, except for the first and the last event.
	if !slices.Equal(slices.Sorted(maps.Keys(reported)), []string{"one", "two"}) || reported["one"] < 2000 || reported["two"] != 1 {
		t.Errorf("%v", reported)
	}
	p.call(2, "tell", `{}`)
	if h := p.receive(); h.ID != 2.0 || h.Result == nil {
		t.Errorf("got unexpected message %+v", h)
	}
}

// TestOutput checks that output arrives unchanged, and that no character is split.
func TestOutput(t *testing.T) {
	p := newWorld(t).connect(t.Context(), t)
	p.call(1, "print", `{"text":"ü€😀","number":20000,"stream":true}`)
	var out strings.Builder
	for {
		h := p.receive()
		if h.Result != nil || h.Error != nil {
			if h.Result != "printed" {
				t.Error(h.Result)
			}
			break
		}
		if h.Params.Stream == "stderr" {
			if h.Params.Data != "4oI=" || h.Params.Encoding != "base64" {
				t.Errorf("%+v", h.Params)
			}
			continue
		}
		if h.Method != "output" || h.Params.Encoding != "utf-8" {
			t.Fatalf("%+v", h)
		}
		out.WriteString(h.Params.Data)
	}
	if out.String() != strings.Repeat("ü€😀", 20000) {
		t.Errorf("received %d bytes, which differ from the sent ones", out.Len())
	}
	p.call(2, "print", `{"text":"x","number":1}`)
	if h := p.receive(); h.Result != "it is not asked for" {
		t.Errorf("%+v", h)
	}
}

// TestCharactersAreNotSplit writes texts in parts that are split at every position.
func TestCharactersAreNotSplit(t *testing.T) {
	w := newWorld(t)
	type cuts struct {
		Text   []byte `json:"text"`
		First  int    `json:"first"`
		Second int    `json:"second"`
	}
	w.methods["cut"] = Bind("cut", "", func(_ context.Context, c cuts, to *Call) (string, error) {
		for _, part := range [][]byte{c.Text[:c.First], c.Text[c.First:c.Second], c.Text[c.Second:]} {
			to.Stdout.Write(part)
		}
		return "done", nil
	})
	p := w.connect(t.Context(), t)
	for _, text := range []string{"aü€😀b", "\xff\xc3(€\xf0\x9f"} {
		for first := range len(text) + 1 {
			for second := first; second <= len(text); second++ {
				params, _ := json.Marshal(cuts{[]byte(text), first, second})
				p.call(1, "cut", strings.Replace(string(params), "{", `{"stream":true,`, 1))
				var all []byte
				for h := p.receive(); h.Result == nil && h.Error == nil; h = p.receive() {
					data := decode(t, h)
					if utf8.Valid(data) != (h.Params.Encoding == "utf-8") {
						t.Errorf("%q is %s", data, h.Params.Encoding)
					}
					if utf8.ValidString(text) && !utf8.Valid(data) {
						t.Errorf("cut at %d and %d: %q", first, second, data)
					}
					all = append(all, data...)
				}
				if string(all) != text {
					t.Errorf("cut at %d and %d: %q", first, second, all)
				}
			}
		}
	}
}

// TestWindow checks that a command blocks while the client acknowledges nothing, and that other
// calls continue. After an acknowledgement, the command must continue.
func TestWindow(t *testing.T) {
	w := newWorld(t)
	p := w.connect(t.Context(), t)
	p.call(1, "print", `{"text":"0123456789","number":100,"stream":true,"window":25}`)
	for range 2 {
		if h := p.receive(); h.Params.Data != "0123456789" {
			t.Fatalf("%+v", h)
		}
	}
	p.call(2, "echo", "{}")
	if h := p.receive(); h.ID != 2.0 {
		t.Fatalf("output beyond the window: %+v", h)
	}
	came := 2
	for came < 100 {
		p.says(`{"jsonrpc":"2.0","method":"consumed","params":{"id":1,"bytes":10}}`)
		if h := p.receive(); h.Params.Data != "0123456789" {
			t.Fatalf("%+v", h)
		}
		came++
	}
	p.call(3, "print", `{"text":"0123456789","number":100,"stream":true,"window":1}`) // the window is smaller than one write
	p.says(`{"jsonrpc":"2.0","method":"consumed","params":{"id":1,"bytes":99}}`)
	for range 3 {
		p.receive() // the rest of the first call's output, its result, and the part of the third call's output that fits
	}
	p.says(`{"jsonrpc":"2.0","method":"cancel","params":{"id":3}}`)
	if h := p.receive(); h.ID != 3.0 || h.Error == nil || h.Error.Data.Kind != fault.Canceled {
		t.Errorf("%+v", h)
	}
}

func TestFields(t *testing.T) {
	got := Bind("x", "", func(context.Context, words, *Call) (any, error) { return nil, nil }).Fields()
	want := []Field{
		{"text", reflect.TypeFor[string]()}, {"number", reflect.TypeFor[int]()}, {"pairs", reflect.TypeFor[map[string]string]()}, {"list", reflect.TypeFor[[]inner]()},
	}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}
