//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

const (
	openAIKey   = "sk-test-0123456789"
	openAIModel = "scripted"
)

// item is an item of a conversation with the Responses API.
type item = map[string]any

// responses is an endpoint of the Responses API whose model follows a script. The script uses only
// the results of the model's calls.
type responses struct {
	mu       sync.Mutex
	task     string // task that the user gave
	tools    map[string]item
	given    []item         // all items that the endpoint has sent
	reported map[string]any // results of calls, by call_id
	round    int
	wrong    string // the error in a request

	// answer returns the items of the next response.
	answer func(r *responses) []item
}

// check validates a request and stores its new items.
func (r *responses) check(req *http.Request) error {
	var body struct {
		Model string
		Input []item
		Tools []item
	}
	if req.Method != http.MethodPost || req.URL.Path != "/v1/responses" || req.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s of %q", req.Method, req.URL, req.Header.Get("Content-Type"))
	}
	if holders := keyHolders(); len(holders) > 0 {
		return fmt.Errorf("the key is in the environment of %q", holders)
	}
	if got := req.Header.Get("Authorization"); got != "Bearer "+openAIKey {
		return fmt.Errorf("the authorization is %q", got)
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return err
	}
	if body.Model != openAIModel || len(body.Input) == 0 || body.Input[0]["role"] != "user" {
		return fmt.Errorf("model %q, %v", body.Model, body.Input)
	}
	r.task, r.tools, r.reported = body.Input[0]["content"].(string), map[string]item{}, map[string]any{}
	for _, tool := range body.Tools {
		parameters, ok := tool["parameters"].(map[string]any)
		if _, strict := tool["strict"].(bool); !ok || !strict || tool["type"] != "function" || parameters["type"] != "object" {
			return fmt.Errorf("a tool is %v", tool)
		}
		r.tools[tool["name"].(string)] = tool
	}
	// The client must send all items back unchanged. Exactly one result must follow each call.
	said, calls := 0, map[string]bool{}
	for _, i := range body.Input[1:] {
		if i["type"] == "function_call_output" {
			id, _ := i["call_id"].(string)
			var outcome any
			if text, ok := i["output"].(string); !ok || !calls[id] || json.Unmarshal([]byte(text), &outcome) != nil {
				return fmt.Errorf("an outcome is %v", i)
			}
			delete(calls, id)
			r.reported[id] = outcome
			continue
		}
		if said == len(r.given) || !reflect.DeepEqual(i, r.given[said]) {
			return fmt.Errorf("item %d is %v", said, i)
		}
		if said++; i["type"] == "function_call" {
			calls[i["call_id"].(string)] = true
		}
	}
	if said != len(r.given) || len(calls) > 0 {
		return fmt.Errorf("%d of %d items, without an outcome %v", said, len(r.given), calls)
	}
	return nil
}

// keyHolders returns the command lines of pyro processes whose environment contains the key.
func keyHolders() (commands []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		variables, _ := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		program, _, _ := strings.Cut(string(command), "\x00")
		if filepath.Base(program) == "pyro" && strings.Contains(string(variables), openAIKey) {
			commands = append(commands, string(command))
		}
	}
	return commands
}

func (r *responses) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := r.check(req); err != nil {
		r.wrong = err.Error()
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(item{"error": item{"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil}})
		return
	}
	output := r.answer(r)
	r.round++
	text, _ := json.Marshal(item{"id": fmt.Sprint("resp_", r.round), "object": "response", "status": "completed", "error": nil, "incomplete_details": nil,
		"model": openAIModel, "output": output})
	var sent struct{ Output []item }
	json.Unmarshal(text, &sent) // converts the items to the form that they have when they come back
	r.given = append(r.given, sent.Output...)
	w.Write(text)
}

func calls(id, name string, arguments any) item {
	text, isText := arguments.(string)
	if !isText {
		b, _ := json.Marshal(arguments)
		text = string(b)
	}
	return item{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "name": name, "arguments": text, "status": "completed"}
}

func says(format string, args ...any) item {
	part := item{"type": "output_text", "text": fmt.Sprintf(format, args...), "annotations": []any{}}
	return item{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer", "content": []item{part}}
}

// of returns a field in the result of a call.
func (r *responses) of(id, field string) any {
	outcome, _ := r.reported["call_"+id].(map[string]any)
	return outcome[field]
}

// serve starts the endpoint. It returns environment variables that make clients use the endpoint.
func serve(t *testing.T, r http.Handler) []string {
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=" + openAIKey, "OPENAI_MODEL=" + openAIModel}
}

// TestOpenAIVMRun checks that a model can compute in machines.
func TestOpenAIVMRun(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	a, b := rand.IntN(1e6), rand.IntN(1e6)
	r := &responses{answer: func(r *responses) []item {
		run := func(id, environment, command string) item {
			return calls(id, "vm_run", item{"environment": environment, "command": command, "timeout_seconds": 60})
		}
		switch r.round {
		case 0:
			return []item{{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": "opaque"}, run("wrong", "debain:12", "true")}
		case 1:
			return []item{run("product", environment, fmt.Sprintf("echo $((%d * %d))", a, b)), run("failing", environment, "echo oops >&2; exit 3"),
				calls("broken", "vm_run", `{"environment": `), calls("other", "rm", item{})}
		default:
			return []item{says("the product is %v; the other: %v, %v; mistakes: %v, %t, %v", strings.TrimSpace(fmt.Sprint(r.of("product", "stdout"))), r.of("failing", "exit_code"),
				strings.TrimSpace(fmt.Sprint(r.of("failing", "stderr"))), r.of("wrong", "kind"), r.of("broken", "error") != nil, r.of("other", "error"))}
		}
	}}
	got := finished(t, p.example(t, exampleCommands(t)["openai/vm_run.py"], serve(t, r)...))
	want := fmt.Sprintf("the product is %d; the other: 3, oops; mistakes: not_found, true, there is no such tool\n", a*b)
	if got.code != 0 || got.stdout != want || r.wrong != "" || !strings.Contains(r.task, "123456789") {
		t.Errorf("got %+v, want %q; the endpoint printed %q", got, want, r.wrong)
	}
	if tool := r.tools["vm_run"]; len(r.tools) != 1 || tool["strict"] != true {
		t.Errorf("%v", r.tools)
	}
}

// TestOpenAIWorkspaceCore checks that a model can fix a bug in a workspace. The model does not
// delete the workspace.
func TestOpenAIWorkspaceCore(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	seed, err := filepath.Abs("../examples/roman")
	if err != nil {
		t.Fatal(err)
	}
	r := &responses{answer: func(r *responses) []item {
		id := r.of("create", "workspace_id")
		test := func(call string) item {
			return calls(call, "workspace_exec", item{"workspace_id": id, "command": "python3 -B -m unittest", "timeout_seconds": 120})
		}
		switch r.round {
		case 0:
			return []item{calls("create", "workspace_create", item{"environment": environment, "seed_path": seed, "allow_host_compat": true})}
		case 1:
			return []item{test("before"), calls("read", "workspace_file_read", item{"workspace_id": id, "path": "roman.py"}),
				calls("missing", "workspace_file_read", item{"workspace_id": id, "path": "nothing.py"}), calls("broken", "workspace_list", "{"), calls("other", "rm", item{})}
		case 2: // writes the text that the model has read, with a small change
			fixed := strings.ReplaceAll(fmt.Sprint(r.of("read", "content")), `(50, "L"), `, `(50, "L"), (40, "XL"), `)
			return []item{calls("write", "workspace_file_write", item{"workspace_id": id, "path": "roman.py", "text": fixed})}
		case 3:
			return []item{test("after"), calls("diff", "workspace_diff", item{"workspace_id": id})}
		default:
			return []item{says("%v: before %v, after %v; mistakes: %v, %t, %t\n%v", id, r.of("before", "exit_code"), r.of("after", "exit_code"), r.of("missing", "kind"),
				r.of("broken", "error") != nil, r.of("other", "error") != nil, r.of("diff", "patch"))}
		}
	}}
	got := finished(t, p.example(t, exampleCommands(t)["openai/workspace_core"], serve(t, r)...))
	if got.code != 0 || r.wrong != "" || !strings.HasPrefix(got.stdout, "ws-") || !strings.Contains(got.stdout, ": before 1, after 0; mistakes: not_found, true, true\ndiff --git a/roman.py") ||
		!strings.Contains(got.stdout, `(50, "L"), (40, "XL"), `) {
		t.Errorf("got %+v; the endpoint printed %q", got, r.wrong)
	}
	if len(r.tools) != 16 || r.tools["workspace_patch_apply"] == nil {
		t.Errorf("%d tools: %v", len(r.tools), r.tools)
	}
	if left := p.list(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOpenAIInterrupted interrupts the program while the model is working. The program must delete
// the workspace.
func TestOpenAIInterrupted(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	thinks, end := make(chan struct{}), make(chan struct{})
	r := &responses{answer: func(r *responses) []item {
		if r.round == 0 {
			return []item{calls("create", "workspace_create", item{"environment": environment})}
		}
		close(thinks)
		<-end
		return []item{says("too late")}
	}}
	variables := serve(t, r)
	t.Cleanup(func() { close(end) }) // runs before the endpoint is closed, because closing waits for responses
	cmd := p.example(t, built(t, exampleCommands(t)["openai/workspace_core"]), variables...)
	ended := make(chan result, 1)
	go func() { ended <- finished(t, cmd) }()
	select {
	case <-thinks:
	case got := <-ended:
		t.Fatalf("it ended: %+v", got)
	}
	if len(p.list()) != 1 {
		t.Error("got no workspace")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.code == 0 || got.stdout != "" || !strings.Contains(got.stderr, "interrupt") {
		t.Errorf("%+v", got)
	}
	if left := p.list(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOpenAIFaults checks that both programs report the fault of a faulty endpoint without
// revealing the key.
func TestOpenAIFaults(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("a redirect was followed: %s %s %q", req.Method, req.URL, req.Header)
	}))
	defer elsewhere.Close()
	answers := func(code int, text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(code)
			fmt.Fprint(w, text)
		})
	}
	endless := &responses{answer: func(r *responses) []item { return []item{calls(fmt.Sprint(r.round), "nothing", item{})} }}
	faults := []struct {
		name, says string
		endpoint   http.Handler
		env        []string
	}{
		{"no key", "set OPENAI_API_KEY", answers(200, ""), []string{"OPENAI_API_KEY="}},
		{"no model", "OPENAI_MODEL", answers(200, ""), []string{"OPENAI_MODEL="}},
		{"the key is refused", "Incorrect API key provided: [OPENAI_API_KEY]", answers(401, `{"error": {"message": "Incorrect API key provided: `+openAIKey+`"}}`), nil},
		{"the key is repeated in text", "[OPENAI_API_KEY] is wrong", answers(403, openAIKey+" is wrong"), nil},
		{"a redirect", "307", answers(307, ""), nil},
		{"another redirect", "302", answers(302, ""), nil},
		{"no JSON", "/v1/responses", answers(200, "<html>"), nil},
		{"no response", "not a response", answers(200, "{}"), nil},
		{"a response that failed", "the model is gone", answers(200, `{"status": "failed", "error": {"code": "server_error", "message": "the model is gone"}, "output": []}`), nil},
		{"a response that is cut", "max_output_tokens", answers(200, `{"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}`), nil},
		{"no server", "refused", answers(200, ""), []string{"OPENAI_BASE_URL=http://127.0.0.1:9/v1"}},
		{"no end", "no answer after", endless, nil},
	}
	for _, key := range []string{"openai/vm_run.py", "openai/workspace_core"} {
		t.Run(key, func(t *testing.T) {
			p, line := workspaces(t), built(t, exampleCommands(t)[key])
			for _, f := range faults {
				endless.given, endless.round = nil, 0
				r := finished(t, p.example(t, line, append(serve(t, f.endpoint), f.env...)...))
				if r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, f.says) || strings.Contains(r.stderr, "Traceback") {
					t.Errorf("%s: %+v has no %q", f.name, r, f.says)
				}
				if strings.Contains(r.stderr, openAIKey) {
					t.Errorf("%s: the key is shown: %s", f.name, r.stderr)
				}
			}
			if endless.wrong != "" || endless.round > 30 {
				t.Errorf("%d rounds, %s", endless.round, endless.wrong)
			}
		})
	}
}
