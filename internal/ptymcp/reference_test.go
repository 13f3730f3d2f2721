package ptymcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/mcp/mcpdoc"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

const reference = "../../docs/pty.md"

// generated is the line in the reference after which the generated part begins.
const generated = "<!-- Generated from the tools: go test ./internal/ptymcp -run TestReference -update -->\n"

const referenceHead = `
Each tool has an example of its arguments and its result. A test makes these calls with the owner
~agent~ and the name ~shell~. The ids, tokens, times, process ids and the folder are examples.

- A result is a text or an object. Objects come as structured content too. Terminal output has lines
  that end in ~\r\n~. ~…~ marks omitted text.
- Times are seconds since 1970. Offsets and sizes are in bytes.
- ~owner~ is required unless ~PTY_MCP_REQUIRE_OWNER=0~.
- Errors are results with ~isError~: a text, and ~error~, ~kind~ and ~hint~ as structured content.
- Numbers can be texts (~"80"~). Optional arguments can be null.
`

// TestReference makes the calls in the examples. It compares docs/pty.md with the tools and the
// results. Each tool must have an example.
func TestReference(t *testing.T) {
	testenv.NeedsTool(t, "tmux")
	always := newWorld(t, nil).mcp.Tools()
	control := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1"}).mcp.Tools()
	all := newWorld(t, everything).mcp.Tools()
	shown := map[string]string{}
	for _, e := range examples {
		shown[e.tool] += e.markdown(t)
	}
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "~", "`"))
	for _, tool := range all {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s.", tool.Name, tool.Description, mcpdoc.Annotations(tool))
		switch {
		case !has(control, tool):
			b.WriteString(" Only with `PTY_MCP_ENABLE_ADMIN_TOOLS=1`.")
		case !has(always, tool):
			b.WriteString(" Only with `PTY_MCP_ENABLE_CONTROL_TOOLS=1`.")
		}
		b.WriteByte('\n')
		mcpdoc.Arguments(&b, tool, nil)
		if shown[tool.Name] == "" {
			t.Errorf("%s has no example: examples_test.go", tool.Name)
		}
		b.WriteString(shown[tool.Name])
		delete(shown, tool.Name)
	}
	for name := range shown {
		t.Errorf("the example of %s belongs to no tool", name)
	}
	have, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	prose, tools, found := strings.Cut(string(have), generated)
	if !found {
		t.Fatalf("%s has not the line %q", reference, generated)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(reference, []byte(prose+generated+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(tools, b.String()); diff != "" {
		t.Errorf("%s differs from the tools; go test ./internal/ptymcp -run TestReference -update rewrites it:\n%s", reference, diff)
	}
}

func has(tools []mcp.Tool, tool mcp.Tool) bool {
	return slices.ContainsFunc(tools, func(o mcp.Tool) bool { return o.Name == tool.Name })
}

// everything is a configuration that enables all tools.
var everything = env{"ENABLE_CONTROL_TOOLS": "1", "ENABLE_ADMIN_TOOLS": "1"}

// showcase is a server that makes the call of one example.
type showcase struct {
	*world
	client  *sdk.ClientSession
	project string // working folder
	session string // session ID
	token   string // confirmation token
}

// These samples replace values that differ in each run.
const (
	sampleSession = "1767225600000-4100-5eed0001"
	sampleToken   = "dc_00112233445566778899aabbccddeeff"
	sampleProject = "/home/you/project"
)

var samples = map[string]string{
	"pid": "4321", "pgid": "4321", "created_at": "1767225600.25", "last_active": "1767225601.5", "timestamp": "1767225601.75", "last_lease_at": "1767225601.5",
	"recovered_at": "1767225602.5", "expires_at": "1767225900.25", "uptime_sec": "60",
}

// newShowcase starts a showcase, with the files of a project and a session.
func newShowcase(t *testing.T, e example) *showcase {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".password": "correct horse\n", "README.md": "", "test.sh": "echo 'test_add ok'\necho 'test_sub FAILED'\necho '2 run, 1 failed'\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, everything)
	s := &showcase{world: w, client: w.client(t, nil), project: folder}
	if e.command != "" {
		spawn := args{"command": e.command, "owner": "agent", "name": "shell", "cwd": folder}
		for name, value := range e.spawned {
			spawn[name] = value
		}
		s.session = s.called(t, "pty_spawn", spawn).Content[0].(*sdk.TextContent).Text
	}
	if e.before != nil {
		e.before(t, s)
	}
	return s
}

// called calls a tool. The call must succeed.
func (s *showcase) called(t *testing.T, tool string, a args) *sdk.CallToolResult {
	t.Helper()
	r, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil || r.IsError {
		t.Fatalf("%s %v: %+v, %v", tool, a, r, err)
	}
	if o, ok := r.StructuredContent.(map[string]any); ok && o["matched"] == false {
		t.Fatalf("%s %v: %v", tool, a, o)
	}
	return r
}

// killSessionProcess kills the session process and waits until it has exited.
func (s *showcase) killSessionProcess(t *testing.T) {
	t.Helper()
	info, err := s.sessions.Get(s.session)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := flock.Holder(filepath.Join(string(info.Folder), "keeper.lock"))
	if err != nil {
		t.Fatal(err)
	}
	unix.Kill(pid, unix.SIGKILL)
	testenv.Eventually(t, "the session process has ended", func() bool { return !info.Folder.HasProcess() })
}

// filled waits until the session has printed as much output as text. It does not consume the
// output.
func (s *showcase) filled(t *testing.T, text string) {
	t.Helper()
	info, err := s.sessions.Get(s.session)
	if err == nil {
		err = info.Wait(t.Context(), session.Request{Cursor: int64(len(text)) - 1, Timeout: time.Minute})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// markdown runs an example and returns its documentation.
func (e example) markdown(t *testing.T) (text string) {
	t.Run(e.tool, func(t *testing.T) {
		s := newShowcase(t, e)
		var a args
		if err := json.Unmarshal([]byte(strings.NewReplacer("$session", s.session, "$token", s.token, "$project", s.project).Replace(e.args)), &a); err != nil {
			t.Fatal(err)
		}
		r, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: e.tool, Arguments: a})
		if err != nil {
			t.Fatal(err)
		}
		result := r.Content[0].(*sdk.TextContent).Text
		if o, ok := r.StructuredContent.(map[string]any); ok && o["confirm_token"] != nil {
			s.token = o["confirm_token"].(string)
		}
		if e.tool == "pty_spawn" && !r.IsError {
			s.session = result
		}
		text = e.says
		if e.command != "" {
			text = strings.TrimSpace(fmt.Sprintf("%s\n\nThe session runs:\n\n```sh\n%s\n```\n\nThe call and its result:", text, e.command))
		}
		if text != "" {
			text += "\n\n"
		}
		call := strings.NewReplacer("$session", sampleSession, "$token", sampleToken, "$project", sampleProject).Replace(e.args)
		kind, lines := "json", laid(t, s.stable(result), e.only)
		if lines == "" {
			kind, lines = "text", strings.TrimSuffix(strings.ReplaceAll(s.stable(result), "\r\n", "\n"), "\n")
		}
		text = fmt.Sprintf("\n%s```json\n%s\n```\n\n```%s\n%s\n```\n", text, call, kind, lines)
	})
	return text
}

// stable replaces values that differ in each run with samples.
func (s *showcase) stable(text string) string {
	for varying, sample := range map[string]string{s.session: sampleSession, s.token: sampleToken, s.project: sampleProject} {
		if varying != "" {
			text = strings.ReplaceAll(text, varying, sample)
		}
	}
	return text
}

// laid formats a result that is an object or a list of objects. It replaces varying values with
// samples. If the result is a text, it returns "".
func laid(t *testing.T, result string, only []string) string {
	t.Helper()
	var all []json.RawMessage
	switch {
	case strings.HasPrefix(result, "["):
		if err := json.Unmarshal([]byte(result), &all); err != nil {
			t.Fatal(err)
		}
		var items []string
		for _, one := range all {
			items = append(items, laid(t, string(one), only))
		}
		return "[" + strings.Join(items, ",\n ") + "]"
	case !strings.HasPrefix(result, "{"):
		return ""
	}
	var b strings.Builder
	width := 0
	put := func(text string) {
		if width += len(text) + 1; width > 150 {
			b.WriteString("\n")
			width = len(text) + 1
		}
		b.WriteString(" " + text)
	}
	d := json.NewDecoder(strings.NewReader(result))
	d.Token() // {
	for left := false; ; {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if name == json.Delim('}') {
			if left {
				put("…")
			}
			return "{" + strings.TrimSuffix(strings.TrimPrefix(b.String(), " "), ",") + "}"
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if sample := samples[name.(string)]; sample != "" && string(value) != "null" {
			value = json.RawMessage(sample)
		}
		if len(only) > 0 && !slices.Contains(only, name.(string)) {
			left = true
			continue
		}
		put(fmt.Sprintf("%q: %s,", name, bytes.ReplaceAll(value, []byte(`","`), []byte(`", "`))))
	}
}
