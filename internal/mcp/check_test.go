package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestArguments checks all kinds of arguments: the form that a request gets, or the error. Errors
// must name the argument, and must not show texts.
func TestArguments(t *testing.T) {
	type port struct {
		Guest int `json:"guest"`
	}
	type request struct {
		Number *int              `json:"number,omitempty"`
		Flag   *bool             `json:"flag,omitempty"`
		Word   *string           `json:"word,omitempty"`
		List   []string          `json:"list,omitempty"`
		Codes  []int             `json:"codes,omitempty"`
		Pairs  map[string]string `json:"pairs,omitempty"`
		Check  *port             `json:"check,omitempty"`
		Ports  []port            `json:"ports,omitempty"`
		Text   *string           `json:"text,omitempty"`
	}
	guest := Integer("guest", "", 1, 65535).Require()
	args := []Arg{
		Integer("number", "", -5, 100), Boolean("flag", ""), String("word", "", "one", "two"), Strings("list", ""), Integers("codes", "", 0, 9),
		StringMap("pairs", ""), Object("check", "", guest), Objects("ports", "", guest), String("text", "").Alias("content"),
	}
	tool := Bind("tool", "", Reads, args, func(_ context.Context, req request, _ func(string)) (request, error) { return req, nil })
	for _, row := range []struct{ args, want string }{
		{`{}`, `{}`}, {` { } `, `{}`},
		{`{"number": 30.0, "codes": [1, 2.0, 3e0], "check": {"guest": 8e1}, "ports": [{"guest": 1}, {"guest": 2.0}]}`,
			`{"number":30,"codes":[1,2,3],"check":{"guest":80},"ports":[{"guest":1},{"guest":2}]}`},
		{`{"number": -0.0}`, `{"number":0}`},
		{`{"number": null, "flag": null, "word": null, "list": null, "codes": null, "pairs": null, "check": null, "ports": null}`, `{}`},
		{`{"flag": false, "word": "two", "list": ["", "a"], "pairs": {"a": "<1.0>"}}`, `{"flag":false,"word":"two","list":["","a"],"pairs":{"a":"<1.0>"}}`},
		{`{"content": "a"}`, `{"text":"a"}`}, {`{"content": "a", "text": null}`, `{"text":"a"}`}, {`{"content": null, "text": "a"}`, `{"text":"a"}`},
		{`{"content": null}`, `{}`}, {`{"content": "a", "text": "b"}`, `unknown argument "content"`},
		{`[]`, "the arguments are not a JSON object"}, {`"x"`, "the arguments are not a JSON object"},
		{`{"number": "hunter2"}`, "number: want an integer, got a string"},
		{`{"number": 1.5}`, "number: want an integer, got 1.5"},
		{`{"number": 1e300}`, "number: want an integer, got 1e300"},
		{`{"number": true}`, "number: want an integer, got true"},
		{`{"number": {"hunter2": 1}}`, "number: want an integer, got an object"},
		{`{"number": 101}`, "number: want at most 100, got 101"},
		{`{"number": -6.0}`, "number: want at least -5, got -6.0"},
		{`{"flag": "hunter2"}`, "flag: want true or false, got a string"},
		{`{"flag": 0}`, "flag: want true or false, got 0"},
		{`{"word": 7}`, "word: want a string, got 7"},
		{`{"word": "hunter2"}`, `word: want one of "one", "two", got a string`},
		{`{"list": "hunter2"}`, "list: want an array, got a string"},
		{`{"list": ["a", null]}`, "list[1]: want a string, got null"},
		{`{"codes": [1, 10]}`, "codes[1]: want at most 9, got 10"},
		{`{"pairs": {"a": ["hunter2"]}}`, "pairs.a: want a string, got an array"},
		{`{"pairs": {"a": null}}`, "pairs.a: want a string, got null"},
		{`{"check": {}}`, "the argument check.guest is missing"},
		{`{"check": {"guest": null}}`, "the argument check.guest is missing"},
		{`{"ports": [{"guest": 1}, {"guest": 65536}]}`, "ports[1].guest: want at most 65535, got 65536"},
		{`{"ports": [{"guest": 1, "host": "hunter2"}]}`, `unknown argument "ports[0].host"`},
		{`{"ports": ["hunter2"]}`, "ports[0]: want an object, got a string"},
	} {
		got, err := tool.answer(t.Context(), json.RawMessage(row.args), nil)
		switch {
		case strings.HasPrefix(row.want, "{"):
			if err != nil || string(got) != row.want {
				t.Errorf("%s: %s, %v", row.args, got, err)
			}
		case fault.KindOf(err) != fault.Invalid || err.Error() != "tool: "+row.want:
			t.Errorf("%s: %s, %v", row.args, got, err)
		}
	}
}
