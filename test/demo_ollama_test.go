//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
)

// TestDemoOllama checks the demo with a server like Ollama. The server's model calls vm_run and
// uses the result.
func TestDemoOllama(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789"
	var authorization []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = append(authorization, r.Header.Get("Authorization"))
		var asked struct {
			Model    string
			Messages []struct{ Role, Content string }
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/chat/completions" || len(asked.Tools) != 1 || asked.Tools[0].Function.Name != "vm_run" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		if asked.Model != "able" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error": {"message": "model %q not found, try pulling it first", "type": "api_error"}}`, asked.Model)
			return
		}
		message := map[string]any{"role": "assistant", "content": ""}
		call := func(arguments string) {
			message["tool_calls"] = []any{map[string]any{
				"id": fmt.Sprint("call_", len(asked.Messages)), "type": "function", "function": map[string]any{"name": "vm_run", "arguments": arguments},
			}}
		}
		switch len(asked.Messages) {
		case 2:
			call(`{"environment": "debian:12"}`) // the required argument command is missing
		case 4:
			call(`{"environment": "debian:12", "command": ". /etc/os-release; echo \"$PRETTY_NAME $(hostname)\""}`)
		default:
			var result pyro.RunResult
			if err := json.Unmarshal([]byte(asked.Messages[5].Content), &result); err != nil || !strings.Contains(asked.Messages[3].Content, "the argument command is missing") {
				t.Errorf("the model got %+v", asked.Messages)
			}
			message["content"] = "It is a " + strings.TrimSpace(result.Stdout) + "."
		}
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message}}})
	}))
	defer server.Close()
	p := workspaces(t).sandboxed().with("OPENAI_API_KEY", key)
	r := p.run(nil, "demo", "ollama", "--base-url", server.URL+"/v1", "--model", "able", "--verbose")
	for _, line := range []string{
		`(?m)^\[call\] vm_run \{"environment": "debian:12"\}$`, `(?m)^\[error\] .*the argument command is missing$`, `(?m)^\[result\] exit_code=0 isolation=gvisor .*Debian GNU/Linux 12`,
		`(?m)^\[answer\] It is a Debian GNU/Linux 12 \(bookworm\) \S+\.$`, `\n\[summary\] exit_code=0 isolation=gvisor rounds=3 commands=1 fallback=no model=able total=[0-9.]+s\n$`,
	} {
		if !regexp.MustCompile(line).MatchString(r.stdout) {
			t.Errorf("%s is not in %+v", line, r)
		}
	}
	if r.code != 0 || strings.Contains(r.stdout+r.stderr, key) || len(authorization) != 3 || authorization[0] != "Bearer "+key {
		t.Errorf("%+v, %q", r, authorization)
	}
	p.fails(3, `model "other" not found`, "demo", "ollama", "--base-url", server.URL+"/v1", "--model", "other")
	p.fails(3, "pyro: hint: ollama pull other, or --model NAME", "demo", "ollama", "--base-url", server.URL+"/v1", "--model", "other")
}
