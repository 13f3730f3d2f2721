package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

type loose struct {
	Number *int              `json:"number"`
	Flag   *bool             `json:"flag"`
	Text   string            `json:"text"`
	Pairs  map[string]string `json:"pairs"`
}

func looseTool() Tool {
	args := []Arg{Integer("number", "", 0, 100), Boolean("flag", ""), String("text", "").Require(), StringMap("pairs", "")}
	return Bind("loose", "Take what comes.", Reads, args, func(_ context.Context, req loose, _ func(string)) (Plain, error) {
		text, err := json.Marshal(req)
		return Plain(text), err
	})
}

// TestLenient checks that an argument of another type is converted if its meaning is clear. All
// other arguments of wrong types must be refused.
func TestLenient(t *testing.T) {
	tool := looseTool()
	lenient := tool.Lenient()
	for _, row := range []struct{ args, want string }{
		{`{"text": "x", "number": "7", "flag": "true"}`, `{"number":7,"flag":true,"text":"x","pairs":null}`},
		{`{"text": "x", "number": null, "flag": null, "pairs": null}`, `{"number":null,"flag":null,"text":"x","pairs":null}`},
		{`{"text": "x", "number": 7.0, "flag": 0}`, `{"number":7,"flag":false,"text":"x","pairs":null}`},
		{`{"text": "x", "number": " 8 ", "flag": "No"}`, `{"number":8,"flag":false,"text":"x","pairs":null}`},
		{`{"text": "x", "pairs": {"a": 1, "b": null, "c": true, "d": "e"}}`, `{"number":null,"flag":null,"text":"x","pairs":{"a":"1","b":"","c":"true","d":"e"}}`},
		{`{"text": "x", "number": "seven"}`, ""}, {`{"text": "x", "number": "101"}`, ""}, {`{"text": "x", "number": 1.5}`, ""}, {`{"text": "x", "flag": "maybe"}`, ""},
		{`{"text": "a\ud800b"}`, `the argument "text" must be text: it has the lone surrogate \ud800`}, {"{\"text\": \"\xff\"}", `the argument "text" must be text`},
		{`{"text": "x", "pairs": {"a": "\udc00"}}`, `the argument "pairs" must be text`}, {`{"text": "\ud83d\ude00"}`, `{"number":null,"flag":null,"text":"😀","pairs":null}`},
		{`{"text": 7}`, ""}, {`{"text": null}`, "text is required"}, {`{"text": "x", "more": null}`, ""}, {`{"text": "x", "pairs": {"a": {}}}`, ""}, {`[]`, ""}, {`{"text": "x", "number": 1e300}`, ""},
	} {
		got, err := lenient.result(t.Context(), json.RawMessage(row.args), nil)
		if strings.HasPrefix(row.want, "{") {
			if err != nil || got != Plain(row.want) {
				t.Errorf("%s: %v, %v", row.args, got, err)
			}
		} else if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, %v", row.args, got, err)
		}
	}
	// Other tools must remain strict. The definitions of both tools must be equal.
	for _, args := range []string{`{"text": "x", "number": "7"}`, `{"text": "x", "flag": "true"}`, `{"text": "x", "flag": 1}`, `{"text": "x", "pairs": {"a": null}}`, `{"text": "\ud800"}`} {
		if got, err := tool.result(t.Context(), json.RawMessage(args), nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, %v", args, got, err)
		}
	}
	one, _ := tool.Schema()
	two, _ := lenient.Schema()
	if string(one) != string(two) {
		t.Errorf("%s, %s", one, two)
	}
}

func FuzzLenient(f *testing.F) {
	for _, s := range []string{`{"text":"x","number":"7"}`, `{"number":null}`, `{"flag":"1","pairs":{"a":-1e5}}`, `null`, `{"pairs":[]}`} {
		f.Add(s)
	}
	tool := looseTool().Lenient()
	f.Fuzz(func(t *testing.T, args string) {
		got, err := tool.result(t.Context(), json.RawMessage(args), nil)
		if err == nil && !json.Valid([]byte(got.(Plain))) {
			t.Errorf("%s: %v", args, got)
		}
		if err != nil && (fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "a fault of pyro")) {
			t.Errorf("%s: %v", args, err)
		}
	})
}

// TestPlain checks the text and the structured form of a Plain result.
func TestPlain(t *testing.T) {
	w := newWorld(t, looseTool())
	c := w.client(t, nil)
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "loose", Arguments: map[string]any{"text": "<ü>\n"}})
	structure, _ := r.StructuredContent.(map[string]any)
	if err != nil || r.IsError || len(structure) != 1 || structure["result"] != r.Content[0].(*sdk.TextContent).Text || len(r.Content) != 1 || r.Content[0].(*sdk.TextContent).Text != `{"number":null,"flag":null,"text":"\u003cü\u003e\n","pairs":null}` {
		t.Errorf("%+v, %v", r, err)
	}
	raw, err := w.Call(t.Context(), "loose", json.RawMessage(`{"text": ""}`), nil)
	var text string
	if err != nil || json.Unmarshal(raw, &text) != nil || !strings.HasPrefix(text, "{") {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestAskPerson checks that an answer is valid only once and only for its question. It uses
// protocols that allow questions during a call and protocols that do not.
func TestAskPerson(t *testing.T) {
	type question struct {
		Text string `json:"text"`
	}
	ask := Bind("ask", "Ask.", Runs, []Arg{String("text", "")}, func(ctx context.Context, req question, _ func(string)) (Plain, error) {
		a, err := AskPerson(ctx, req.Text)
		return Plain(fmt.Sprint(a)), err
	})
	w := newWorld(t, ask)
	if raw, err := w.Call(t.Context(), "ask", json.RawMessage(`{"text": "q"}`), nil); err != nil || string(raw) != `"0"` {
		t.Errorf("within this process: %s, %v", raw, err)
	}
	var heard []string
	action := "accept"
	handler := &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		heard = append(heard, r.Params.Message)
		return &sdk.ElicitResult{Action: action}, nil
	}}
	call := func(c *sdk.ClientSession) string {
		t.Helper()
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"text": "May it?"}})
		if err != nil || r.IsError {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Content[0].(*sdk.TextContent).Text
	}
	if got := call(w.client(t, nil)); got != "0" {
		t.Errorf("a client that can't ask: %s", got)
	}
	c := w.client(t, handler)
	for i, row := range []struct{ action, want string }{{"accept", "1"}, {"decline", "2"}, {"cancel", "2"}, {"accept", "1"}} {
		action = row.action
		if got := call(c); got != row.want || len(heard) != i+1 || heard[i] != "May it?" {
			t.Errorf("%s: %s, %q", row.action, got, heard)
		}
	}
	// In older protocols the server asks its question during the call.
	r := w.raw(t)
	r.says(t, strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	if _, err := r.Write([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Now?"}}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	var asked struct {
		ID     any
		Method string
		Params struct{ Message string }
	}
	if err := r.answers.Decode(&asked); err != nil || asked.Method != "elicitation/create" || asked.Params.Message != "Now?" {
		t.Fatalf("%+v, %v", asked, err)
	}
	id, _ := json.Marshal(asked.ID)
	if a := r.says(t, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":{"action":"accept","content":{}}}`); fmt.Sprint(a.Result["content"]) != "[map[text:1 type:text]]" {
		t.Errorf("%+v", a)
	}
	r.close()
	if err := <-r.served; err != nil {
		t.Error(err)
	}

	var q questions
	one := q.note("one")
	if q.was(one, "two") || q.was(one, "one") || q.was("", "") || q.was("x", "one") {
		t.Error("a used answer, or one for another question, was accepted")
	}
	for range maxQuestions + 10 {
		one = q.note("n")
	}
	if len(q.open) != maxQuestions || !q.was(one, "n") || q.was(one, "n") {
		t.Errorf("%d open", len(q.open))
	}
}
