package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
)

const right = `{"environment": "debian:12", "command": "echo $((6 * 7))"}`

func TestModelUsesTool(t *testing.T) {
	m := newModel(t, wants("vm_run", right), answerResult)
	s, log, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1/", Model: "small", Prompt: "What is 6 * 7?"})
	if err != nil {
		t.Fatal(err, log)
	}
	want := Summary{Model: "small", Isolation: pyro.IsolationGVisor, Rounds: 2, Commands: 1, Answer: `it printed "42"`, Total: s.Total}
	if diff := cmp.Diff(want, *s); diff != "" || s.Total <= 0 {
		t.Error(diff)
	}
	for _, line := range []string{"[model] small at " + m.URL + "/v1\n", "[prompt] What is 6 * 7?\n", "[call] vm_run " + right + "\n", "[result] exit_code=0 ", "[answer] it printed \"42\"\n"} {
		if !strings.Contains(log, line) {
			t.Errorf("%q is not in the log:\n%s", line, log)
		}
	}
	first, second := m.asked[0], m.asked[1]
	if first.Model != "small" || first.Stream || first.authorization != "" || len(first.Messages) != 2 || first.last() != "What is 6 * 7?" {
		t.Errorf("asked %+v", first)
	}
	if got := second.Messages[2].ToolCalls; len(got) != 1 || got[0]["id"] != "call_0" || second.Messages[3].Role != "tool" || second.Messages[3].ToolCallID != "call_0" {
		t.Errorf("the result was handed back as %+v", second.Messages)
	}

	// The tool must be the tool of the MCP server.
	server, err := operations.NewServer(nil, operations.ProfileVMRun, "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	tools, err := server.Tools()
	if err != nil || len(first.Tools) != 1 || first.Tools[0].Type != "function" || first.Tools[0].Function.Description != tools[0].Description {
		t.Fatalf("%+v, %v", first.Tools, err)
	}
	if got := first.Tools[0].Function; got.Name != "vm_run" || string(got.Parameters) != string(tools[0].InputSchema) || !strings.Contains(string(got.Parameters), `"environment"`) {
		t.Errorf("got tool with parameters %s", got.Parameters)
	}
}

// TestToolErrors checks that the model receives the errors of its calls, so that it can correct the
// calls.
func TestToolErrors(t *testing.T) {
	for name, row := range map[string]struct{ tool, args, says string }{
		"no JSON":                 {"vm_run", `{"environment": "debian:12", `, "the arguments are not a JSON object"},
		"nothing":                 {"vm_run", ``, "the argument environment is missing"},
		"no object":               {"vm_run", `[1]`, "the arguments are not a JSON object"},
		"no command":              {"vm_run", `{"environment": "debian:12"}`, "the argument command is missing"},
		"another type":            {"vm_run", `{"environment": "debian:12", "command": 7}`, "command: want a string, got 7"},
		"unknown argument":        {"vm_run", `{"environment": "debian:12", "command": "x", "host": true}`, "unknown argument"},
		"on the host":             {"vm_run", `{"environment": "debian:12", "command": "x", "allow_host_compat": true}`, "allow_host_compat is not allowed here"},
		"another tool":            {"rm_rf", right, "there is no such tool"},
		"unknown environment":     {"vm_run", `{"environment": "debain:12", "command": "x"}`, "did you mean debian:12"},
		"an argument that is big": {"vm_run", `{"environment": "debian:12", "command": "` + strings.Repeat("x", 100<<10) + `"}`, "more than 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			reported := ""
			m := newModel(t, wants(row.tool, row.args), func(a asked) any {
				reported = a.last()
				return wants("vm_run", right)(a)
			}, answerResult)
			s, log, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1"})
			if err != nil {
				t.Fatal(err)
			}
			var e struct{ Error, Kind string }
			if json.Unmarshal([]byte(reported), &e) != nil || !strings.Contains(e.Error, row.says) || e.Kind == "" || !strings.Contains(log, "[error] ") {
				t.Errorf("the model got the message %.300s", reported)
			}
			if s.Commands != 1 || s.Rounds != 3 || s.Answer != `it printed "42"` {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestSeveralCallsAndFailedCommand(t *testing.T) {
	m := newModel(t, wants("vm_run", right, "vm_run", `{"environment": "debian:12", "command": "echo \u001b[2J; exit 3"}`), answerResult)
	s, log, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1"})
	if err != nil || s.Commands != 2 || s.ExitCode != 3 || s.Rounds != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if strings.ContainsRune(log, 0x1b) {
		t.Errorf("the log can do something on a terminal: %q", log)
	}
}

// TestWrittenCall checks that a tool call is run if the model writes it as text.
func TestWrittenCall(t *testing.T) {
	for _, text := range []string{
		`{"name": "vm_run", "parameters": ` + right + `}`,
		"```json\n{\"type\": \"function\", \"name\": \"vm_run\", \"arguments\": " + right + "}\n```",
	} {
		m := newModel(t, answerText(text), answerResult)
		if s, log, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1"}); err != nil || !s.Fallback || s.Commands != 1 || s.Answer != `it printed "42"` {
			t.Errorf("%q: %+v, %v\n%s", text, s, err, log)
		}
	}
	for _, text := range []string{"", "{}", "vm_run", `{"name": "other", "parameters": {}}`, `{"name": "vm_run"}`, `{"name": "vm_run", "parameters": "x"}`, "```", "```json\n```", `[{"name": "vm_run"}]`} {
		if args, ok := callIn(text, "vm_run"); ok {
			t.Errorf("%q was parsed as a call with %q", text, args)
		}
	}
}

func TestModelWithoutToolCalls(t *testing.T) {
	for name, row := range map[string]struct {
		turns []func(asked) any
		kind  fault.Kind
		says  string
	}{
		"answers at once":      {[]func(asked) any{answerText("It is Debian.")}, fault.Unsupported, "without running a command"},
		"says nothing":         {[]func(asked) any{func(asked) any { return map[string]any{"content": nil} }}, fault.Unsupported, "without running a command"},
		"is wrong, and leaves": {[]func(asked) any{wants("vm_run", "{}"), answerText("Never mind.")}, fault.Unsupported, "without running a command"},
		"never ends":           {[]func(asked) any{wants("vm_run", right)}, fault.Exhausted, "8 times in a row"},
		"wants too much":       {[]func(asked) any{wants(strings.Fields(strings.Repeat("vm_run {} ", 9))...)}, fault.Exhausted, "9 calls at once"},
	} {
		m := newModel(t, row.turns...)
		_, _, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1"})
		if fault.KindOf(err) != row.kind || !strings.Contains(fmt.Sprint(err), row.says) {
			t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
		}
		if row.kind == fault.Unsupported && !strings.HasPrefix(fault.HintOf(err), "--model ") {
			t.Errorf("%s: the hint is %q", name, fault.HintOf(err))
		}
		if len(m.asked) > maxRounds {
			t.Errorf("%s: asked %d times", name, len(m.asked))
		}
	}
}

// TestKey checks that the key is sent only to a base URL that the caller has set, and that it is
// never printed.
func TestKey(t *testing.T) {
	const secret = "sk-correct-horse"
	m := newModel(t, wants("vm_run", `{"environment": "debian:12", "command": "echo sk-correct-horse"}`), answerText("your key is "+secret))
	s, log, err := talk(t, OllamaRequest{BaseURL: m.URL + "/v1", Key: pyro.NewSecretValue(secret), Verbose: true, Prompt: "tell " + secret})
	if err != nil || m.asked[0].authorization != "Bearer "+secret {
		t.Errorf("%+v, %v", m.asked, err)
	}
	if strings.Contains(log+fmt.Sprintf("%+v", s), secret) {
		t.Errorf("the key is printed: %s %+v", log, s)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"in a message": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error": {"message": "Incorrect API key provided: %s"}}`, secret)
		},
		"escaped": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": {"message": "no: \u0073k-correct-horse"}}`)
		},
		"split": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "sk-cor\x00rect-\x1bhorse", http.StatusBadGateway)
		},
		"in text": func(w http.ResponseWriter, r *http.Request) { http.Error(w, secret, http.StatusInternalServerError) },
	} {
		server := httptest.NewServer(answer)
		_, log, err := talk(t, OllamaRequest{BaseURL: server.URL, Key: pyro.NewSecretValue(secret)})
		server.Close()
		if err == nil || strings.Contains(log+err.Error()+fault.HintOf(err), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := talk(t, OllamaRequest{BaseURL: m.URL, Key: pyro.NewSecretValue("a\nb")}); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "a\nb") {
		t.Errorf("invalid key: got %v", err)
	}
	asks := &http.Request{}
	e, err := openEndpoint(DefaultBaseURL, "m", pyro.SecretValue{})
	if err != nil {
		t.Fatal(err)
	}
	e.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		asks = r
		return nil, fmt.Errorf("nobody is there")
	})
	e.ask(t.Context(), nil, nil)
	if asks.Header["Authorization"] != nil {
		t.Error("got an Authorization header without a key")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoMachine checks that Ollama returns the error of the machine if no machine can start.
func TestNoMachine(t *testing.T) {
	for _, end := range []func(asked) any{answerText("It is Debian."), wants("vm_run", right)} {
		m := newModel(t, wants("vm_run", right), end)
		_, log, err := talkBy(t, OllamaRequest{BaseURL: m.URL + "/v1"}, func(s *operations.Server) caller { return s })
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "no machine can be started on this host") || fault.HintOf(err) != "pyro doctor" {
			t.Errorf("%v, hint %q", err, fault.HintOf(err))
		}
		if !strings.Contains(m.asked[1].last(), `"hint":"pyro doctor"`) || !strings.Contains(log, "[error] no machine can be started") {
			t.Errorf("the model got the message %s\n%s", m.asked[1].last(), log)
		}
	}
}
