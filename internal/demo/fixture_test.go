package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// TestMain makes all drivers unavailable, so that no test starts a machine.
func TestMain(m *testing.M) {
	os.Setenv("PYRO_QEMU", "no-such-qemu")
	os.Setenv("PYRO_RUNSC", "/no-such-runsc")
	goleak.VerifyTestMain(m)
}

// asked is a chat completion request as the server receives it.
type asked struct {
	Model    string
	Messages []struct {
		Role       string
		Content    string
		ToolCallID string           `json:"tool_call_id"`
		ToolCalls  []map[string]any `json:"tool_calls"`
	}
	Tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Stream bool

	authorization string
}

// last returns the content of the last message in the request.
func (a asked) last() string { return a.Messages[len(a.Messages)-1].Content }

// model is a server like Ollama. Its model sends prepared messages, then repeats the last one.
type model struct {
	*httptest.Server
	turns []func(asked) any

	mu    sync.Mutex
	asked []asked
}

func newModel(t *testing.T, turns ...func(asked) any) *model {
	t.Helper()
	m := &model{turns: turns}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := asked{authorization: r.Header.Get("Authorization")}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.turns[min(len(m.asked), len(m.turns)-1)]
	m.asked = append(m.asked, a)
	json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": a.Model, "choices": []any{map[string]any{"index": 0, "message": turn(a)}},
	})
}

// wants returns a function that returns a message with tool calls, in Ollama's format.
func wants(calls ...string) func(asked) any {
	return func(asked) any {
		var all []any
		for i := 0; i < len(calls); i += 2 {
			all = append(all, map[string]any{
				"id": fmt.Sprint("call_", i), "index": i / 2, "type": "function", "function": map[string]any{"name": calls[i], "arguments": calls[i+1]},
			})
		}
		return map[string]any{"role": "assistant", "content": "", "tool_calls": all}
	}
}

func answerText(text string) func(asked) any {
	return func(asked) any { return map[string]any{"role": "assistant", "content": text} }
}

// answerResult returns an answer that contains the output of the command.
func answerResult(a asked) any {
	_, from, _ := strings.Cut(a.last(), "{")
	text, _, _ := strings.Cut("{"+from, "\nNow answer")
	var r pyro.RunResult
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return map[string]any{"content": "there is no result: " + err.Error()}
	}
	return map[string]any{"role": "assistant", "content": fmt.Sprintf("it printed %q", strings.TrimSpace(r.Stdout))}
}

// onHost is pyro's MCP server, changed for hosts without machines. It checks calls in the normal
// way, but runs commands on the host.
type onHost struct{ server *operations.Server }

func (h onHost) CallTool(ctx context.Context, name string, args json.RawMessage, report func(string)) (json.RawMessage, error) {
	result, err := h.server.CallTool(ctx, name, args, report)
	if pyro.KindOf(err) != pyro.Unavailable {
		return result, err
	}
	var req pyro.RunInVMRequest
	if err := json.Unmarshal(args, &req); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", req.Command)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run()
	return json.Marshal(pyro.RunResult{
		Environment: req.Environment, RunStart: pyro.RunStart{Isolation: pyro.IsolationGVisor},
		CommandResult: pyro.CommandResult{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out.String()},
	})
}

// talk runs a conversation and returns the summary and the log.
func talk(t *testing.T, req OllamaRequest) (*Summary, string, error) {
	t.Helper()
	return talkBy(t, req, func(s *operations.Server) caller { return onHost{s} })
}

func talkBy(t *testing.T, req OllamaRequest, by func(*operations.Server) caller) (*Summary, string, error) {
	t.Helper()
	dir := t.TempDir()
	guest := filepath.Join(dir, "pyro-guest")
	if err := os.WriteFile(guest, []byte("an agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYRO_GUEST", guest)
	p, err := pyro.New(pyro.Options{CacheDir: filepath.Join(dir, "cache"), StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	server, err := operations.NewServer(p, operations.ProfileVMRun, "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	tools, err := server.Tools()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	req.Log = func(line string) { log.WriteString(line + "\n") }
	s, err := converse(t.Context(), req, by(server), tools[0])
	return s, log.String(), err
}
