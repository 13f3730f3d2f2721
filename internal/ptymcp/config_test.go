package ptymcp

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

var update = flag.Bool("update", false, "rewrite testdata/tools.golden, and the tools in docs/pty.md")

// TestDefaults checks the documented defaults. Unlike in pty-mcp, the default of IDLE_GRACE_SEC is
// not 0.
func TestDefaults(t *testing.T) {
	c := env{"MAX_SESSIONS": "  "}.config(t)
	c.Rules = nil
	want := Config{
		MaxSessions: 20, Grace: time.Hour, GCInterval: 5 * time.Second, MaxChars: 8000, UntilMax: time.Minute, Quiescence: 300 * time.Millisecond, Backend: "subprocess",
		Limits: Limits{OutputBytes: 1 << 20, IdleSec: 900, ReadMS: 300}, ConfirmTTL: 300 * time.Second, RequireOwner: true, CheckWrites: true, LogLevel: slog.LevelInfo,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	c = env{
		"MAX_SESSIONS": "3", "IDLE_GRACE_SEC": "0", "RING_MAX_BYTES": "100", "REQUIRE_OWNER": "false", "ENABLE_ADMIN_TOOLS": "yes", "LOG": "WARN", "LOG_FORMAT": "json",
		"SESSION_LOG_DIR": "~/logs", "READ_CHUNK_BYTES": "100", "BACKEND": "tmux",
	}.config(t)
	if c.MaxSessions != 3 || c.Grace != 0 || c.Limits.OutputBytes != 100 || c.RequireOwner || !c.AdminTools || c.LogLevel != slog.LevelWarn || !c.LogJSON ||
		c.LogFolder != os.Getenv("HOME")+"/logs" || c.Backend != "tmux" {
		t.Errorf("%+v", c)
	}
	var b bytes.Buffer
	c.Logger(&b).Info("quiet")
	c.Logger(&b).Warn("loud")
	if !strings.HasPrefix(b.String(), "{") || strings.Contains(b.String(), "quiet") {
		t.Error(b.String())
	}
}

// TestWrongEnvironment checks that one error names all wrong variables.
func TestWrongEnvironment(t *testing.T) {
	wrong := env{
		"MAX_SESSIONS": "0", "IDLE_TIMEOUT_SEC": "-1", "GC_INTERVAL_SEC": "0", "RING_MAX_BYTES": "1e6", "READ_TIMEOUT_MS": "0.5", "MAX_CHARS": "99999999", "REQUIRE_OWNER": "maybe",
		"LOG": "loud", "LOG_FORMAT": "xml", "BACKEND": "screen", "DANGEROUS_PATTERNS": "(", "READ_CHUNK_BYTES": "x", "DANGEROUS_CONFIRM_TTL_SEC": "0",
	}
	_, err := FromEnv(func(name string) (string, bool) {
		value, ok := wrong[strings.TrimPrefix(name, prefix)]
		return value, ok
	})
	if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	for name := range wrong {
		if !strings.Contains(err.Error(), prefix+name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

// TestToolsContract checks the names, arguments and defaults of the tools. It also checks that
// disabled tools are absent.
func TestToolsContract(t *testing.T) {
	var b strings.Builder
	known := map[string]bool{}
	for _, group := range []struct {
		name string
		env  env
	}{{"always", nil}, {"PTY_MCP_ENABLE_CONTROL_TOOLS=1", env{"ENABLE_CONTROL_TOOLS": "1"}}, {"PTY_MCP_ENABLE_ADMIN_TOOLS=1", env{"ENABLE_ADMIN_TOOLS": "1"}}} {
		w := newWorld(t, group.env)
		fmt.Fprintln(&b, group.name)
		bytes := 0
		for _, tool := range w.mcp.Tools() {
			schema, err := tool.Schema()
			if err != nil || tool.Description == "" || !strings.HasSuffix(tool.Description, ".") || tool.Title == "" || tool.OutputSchema() == nil {
				t.Errorf("%s: title %q, output schema %v, %v", tool.Name, tool.Title, tool.OutputSchema(), err)
			}
			bytes += len(schema) + len(tool.Description) + len(tool.Name)
			if known[tool.Name] {
				continue
			}
			known[tool.Name] = true
			fmt.Fprintf(&b, "  %s\n", tool.Name)
			for _, a := range tool.Args {
				fmt.Fprintf(&b, "    %s %s%s\n", a.Name, a.Schema().Type, mark(a))
			}
		}
		t.Logf("%s: %d bytes", group.name, bytes)
	}
	const path = "testdata/tools.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != b.String() {
		t.Errorf("%v; go test ./internal/ptymcp -run TestToolsContract -update rewrites %s:\n%s", err, path, b.String())
	}
	w := newWorld(t, nil)
	for _, tool := range []string{"pty_signal", "pty_close_all", "set_default_cwd", "get_default_cwd", "set_limits", "get_limits", "pty_metrics", "pty_health", "pty_destroy"} {
		w.refused(t, tool, args{}, fault.NotFound, "there is no such tool")
	}
}

func mark(a mcp.Arg) string {
	switch {
	case a.Required:
		return " required"
	case a.Schema().Default != nil:
		return " = " + string(a.Schema().Default)
	}
	return ""
}
