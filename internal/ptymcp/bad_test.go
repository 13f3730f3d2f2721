package ptymcp

import (
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestBadInput checks that each bad input returns one clear error.
func TestBadInput(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1", "ENABLE_ADMIN_TOOLS": "1", "MAX_SESSIONS": "2"})
	id := w.spawn(t, "sleep 1000", args{"scope": "control", "name": "taken"})
	for _, row := range []struct {
		tool string
		args args
		kind fault.Kind
		says string
	}{
		{"pty_status", args{"session_id": "x"}, fault.NotFound, "unknown session_id"},
		{"pty_status", args{"session_id": "../../etc"}, fault.NotFound, "unknown session_id"},
		{"pty_status", args{"session_id": "1-1-00000000"}, fault.NotFound, "unknown session_id"},
		{"pty_status", args{"session_id": nil}, fault.Invalid, "session_id is required"},
		{"pty_status", args{"session_id": id, "more": 1}, fault.Invalid, `unknown argument "more"`},
		{"pty_spawn", args{"command": nil}, fault.Invalid, "command is required"},
		{"pty_spawn", args{"command": " "}, fault.Invalid, "command is required"},
		{"pty_spawn", args{"command": "a\x00b"}, fault.Invalid, "must be text"},
		{"pty_spawn", args{"command": strings.Repeat("x", 70_000)}, fault.Invalid, "65536 bytes"},
		{"pty_spawn", args{"command": "x", "cols": 0}, fault.Invalid, "cols: want "},
		{"pty_spawn", args{"command": "x", "rows": "-3"}, fault.Invalid, "rows: want "},
		{"pty_spawn", args{"command": "x", "max_output_bytes": -1}, fault.Invalid, "max_output_bytes: want "},
		{"pty_spawn", args{"command": "x", "max_output_bytes": 1 << 40}, fault.Invalid, "max_output_bytes: want "},
		{"pty_spawn", args{"command": "x", "spawn_timeout_sec": -1}, fault.Invalid, "spawn_timeout_sec: want "},
		{"pty_spawn", args{"command": "x", "input_rate_bps": "fast"}, fault.Invalid, "input_rate_bps: want "},
		{"pty_spawn", args{"command": "x", "env": args{"A=B": "x"}}, fault.Invalid, "not an environment variable"},
		{"pty_spawn", args{"command": "x", "env": "A=B"}, fault.Invalid, "env: want "},
		{"pty_spawn", args{"command": "x", "cwd": "/no/such/folder"}, fault.NotFound, "use cwd"},
		{"pty_spawn", args{"command": "x", "cwd": "/etc/passwd"}, fault.Invalid, "not a folder"},
		{"pty_spawn", args{"command": "x", "backend": "screen"}, fault.Unsupported, "unsupported backend: screen"},
		{"pty_spawn", args{"command": "x", "tmux_workspace": "w"}, fault.Invalid, "tmux_workspace is for"},
		{"pty_spawn", args{"command": "x", "name": "a\nb"}, fault.Invalid, "on one line"},
		{"pty_spawn", args{"command": "x", "name": "taken"}, fault.Exists, "a session with this name is running"},
		{"pty_read_until", args{"session_id": id, "pattern": ""}, fault.Invalid, "pattern is required"},
		{"pty_read_until", args{"session_id": id, "pattern": "(", "regex": true}, fault.Invalid, "missing closing )"},
		{"pty_read_until", args{"session_id": id, "pattern": `(?=x)`, "regex": true}, fault.Invalid, "(?="},
		{"pty_read_until", args{"session_id": id, "pattern": strings.Repeat("x", 5000)}, fault.Invalid, "at most 4096"},
		{"pty_read_until_any", args{"session_id": id, "patterns": []string{}}, fault.Invalid, "patterns is required"},
		{"pty_read_until_any", args{"session_id": id, "patterns": []string{"a", ""}}, fault.Invalid, "pattern is required"},
		{"pty_read_until_any", args{"session_id": id, "patterns": make([]string, 65)}, fault.Invalid, "at most 64"},
		{"pty_prompt", args{"session_id": id, "data": "x", "patterns": []string{"["}, "regex": true}, fault.Invalid, "missing closing ]"},
		{"pty_read", args{"session_id": id, "max_chars": 0}, fault.Invalid, "max_chars: want "},
		{"pty_read", args{"session_id": id, "max_chars": -5}, fault.Invalid, "max_chars: want "},
		{"pty_read", args{"session_id": id, "timeout_ms": "-1"}, fault.Invalid, "timeout_ms: want "},
		{"pty_read", args{"session_id": id, "format": "xml"}, fault.Invalid, "format: want "},
		{"pty_read_at", args{"session_id": id, "offset": -1}, fault.Invalid, "offset: want "},
		{"pty_read_at", args{"session_id": id, "stream": "stdin"}, fault.Invalid, "stream: want "},
		{"pty_write", args{"session_id": id}, fault.Invalid, "data or keys is required"},
		{"pty_write", args{"session_id": id, "keys": []string{"any"}}, fault.Invalid, `unknown key "any"`},
		{"pty_write", args{"session_id": id, "data": strings.Repeat("x\n", 1<<19+1)}, fault.Exhausted, "wait for the program to read"},
		{"pty_resize", args{"session_id": id, "cols": 100_000, "rows": 1}, fault.Invalid, "cols: want "},
		{"pty_signal", args{"session_id": id, "sig": "USR9"}, fault.Invalid, "unsupported signal"},
		{"pty_signal", args{"session_id": id, "sig": "SEGV"}, fault.Invalid, "unsupported signal"},
		{"pty_attach", args{"session_id": id, "client_id": ""}, fault.Invalid, "client_id must be"},
		{"pty_attach", args{"session_id": id}, fault.Invalid, "client_id is required"},
		{"pty_handoff", args{"session_id": id, "client_id": "a", "target_client_id": "b"}, fault.Precondition, "not attached"},
		{"pty_takeover", args{"session_id": id, "client_id": "a", "from_client_id": "a"}, fault.Invalid, "both clients"},
		{"pty_resume", args{"name": ""}, fault.Invalid, "name is required"},
		{"pty_resume", args{"name": "none"}, fault.NotFound, "no session has this name"},
		{"set_default_cwd", args{"cwd": "/no/such/folder"}, fault.NotFound, "use cwd"},
		{"set_limits", args{"max_output_bytes": 0}, fault.Invalid, "max_output_bytes: want "},
	} {
		w.refused(t, row.tool, row.args, row.kind, row.says)
	}
	w.spawn(t, "sleep 1000")
	w.refused(t, "pty_spawn", args{"command": "x"}, fault.Exhausted, "too many sessions (max 2)")
}

// TestErrorsHaveNoStack checks that clients get only the text, kind and hint of an error.
func TestErrorsHaveNoStack(t *testing.T) {
	c := newWorld(t, nil).client(t, nil)
	if name := c.InitializeResult().ServerInfo.Name; name != "pty-mcp" {
		t.Error(name)
	}
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "pty_status", Arguments: args{"session_id": "x", "owner": "me"}})
	if err != nil || !r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	if !strings.Contains(text, "unknown session_id") || strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") || strings.Contains(text, "trace") {
		t.Error(text)
	}
}

func TestSpawnMeta(t *testing.T) {
	w := newWorld(t, env{"SPAWN_META": "1"})
	r := w.object(t, "pty_spawn", args{"command": "sleep 1000", "cwd": "/", "tag": "t", "max_output_bytes": 1000, "spawn_timeout_sec": 60, "rate_limit_bps": 5})
	for name, want := range map[string]any{
		"cwd": "/", "cols": 120.0, "rows": 30.0, "tag": "t", "owner": "me", "separate_streams": false, "max_output_bytes": 1000.0, "max_runtime_sec": 60.0, "rate_limit_bps": 5.0,
		"last_lease_event": nil, "running": true, "recovered": false, "recovered_at": nil,
	} {
		if got, there := r[name]; !there || got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// TestCwd checks how the working folder is chosen. The order is: the call's folder, the default,
// the program's folder, the server's folder.
func TestCwd(t *testing.T) {
	w := newWorld(t, env{"ENABLE_ADMIN_TOOLS": "1"})
	home := os.Getenv("HOME")
	script := home + "/a program"
	if err := testenv.WriteProgram(script, []byte("#!/bin/sh\npwd\n")); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	where := func(a args, want string) {
		t.Helper()
		if got := strings.TrimSpace(w.until(t, w.spawn(t, "pwd", a), "\n")); got != want {
			t.Errorf("%v: in %s, not %s", a, got, want)
		}
	}
	where(nil, here)
	where(args{"cwd": "/usr"}, "/usr")
	where(args{"cwd": "~"}, home)
	where(args{"command": "'" + script + "'"}, home)
	if r := w.object(t, "get_default_cwd", args{}); r["cwd"] != nil {
		t.Errorf("%v", r)
	}
	if r := w.object(t, "set_default_cwd", args{"cwd": "/usr/../tmp"}); r["ok"] != true || r["cwd"] != "/tmp" {
		t.Errorf("%v", r)
	}
	where(nil, "/tmp")
	where(args{"command": "'" + script + "'"}, "/tmp")
	where(args{"cwd": "/usr"}, "/usr")
	w.object(t, "set_default_cwd", args{"cwd": nil})
	where(nil, here)
}

func TestAdmin(t *testing.T) {
	w := newWorld(t, env{"ENABLE_ADMIN_TOOLS": "1", "ENABLE_CONTROL_TOOLS": "1"})
	if l := w.object(t, "get_limits", args{}); len(l) != 6 || l["max_output_bytes"] != 1048576.0 || l["idle_timeout_sec"] != 900.0 || l["read_timeout_ms"] != 300.0 || l["input_rate_bps"] != 0.0 {
		t.Errorf("%v", l)
	}
	if l := w.object(t, "set_limits", args{"max_output_bytes": "500", "input_rate_bps": 10, "spawn_timeout_sec": nil}); l["max_output_bytes"] != 500.0 || l["input_rate_bps"] != 10.0 || l["spawn_timeout_sec"] != 0.0 {
		t.Errorf("%v", l)
	}
	id := w.spawn(t, "cat", args{"scope": "control"})
	w.text(t, "pty_write", args{"session_id": id, "data": "12345678\n"})
	w.refused(t, "pty_write", args{"session_id": id, "data": "12345678901\n"}, fault.Exhausted, "input throttled (limit 10 bytes/s)")
	if text := w.until(t, id, "12345678\r\n"); text != "12345678\r\n12345678\r\n" { // the echo, and the output of cat
		t.Errorf("%q", text)
	}
	st := w.object(t, "pty_status", args{"session_id": id})
	if st["input_dropped"] != 12.0 || st["bytes_written"] != 9.0 || st["max_output_bytes"] != 500.0 || st["input_rate_bps"] != 10.0 {
		t.Errorf("%v", st)
	}
	m := w.object(t, "pty_metrics", args{})
	if m["session_count"] != 1.0 || m["running_count"] != 1.0 || m["max_sessions"] != 20.0 || m["bytes_written_total"] != 9.0 || m["bytes_read_total"] != 20.0 || m["input_dropped_total"] != 12.0 || len(m) != 9 {
		t.Errorf("%v", m)
	}
	if h := w.object(t, "pty_health", args{}); h["ok"] != true || h["session_count"] != 1.0 || len(h) != 4 {
		t.Errorf("%v", h)
	}
	if r := w.object(t, "pty_signal", args{"session_id": id, "sig": "sigint"}); r["ok"] != true || r["note"] != nil {
		t.Errorf("%v", r)
	}
	w.object(t, "pty_wait", args{"session_id": id})
	if r := w.object(t, "pty_signal", args{"session_id": id, "sig": "INT"}); r["ok"] != true || r["note"] != "already exited" || r["exit_code"] != 130.0 {
		t.Errorf("%v", r)
	}
	w.spawn(t, "sleep 1000", args{"owner": "other"})
	if got := w.text(t, "pty_close_all", args{}); got != "ok" {
		t.Error(got)
	}
	if h := w.object(t, "pty_health", args{}); h["session_count"] != 0.0 {
		t.Errorf("%v", h)
	}
}

// TestList checks that pty_list finds sessions by owner and tag. The most recently used session is
// last.
func TestList(t *testing.T) {
	w := newWorld(t, nil)
	one := w.spawn(t, "sleep 1000", args{"tag": "a"})
	two := w.spawn(t, "sleep 1000", args{"tag": "b"})
	w.spawn(t, "sleep 1000", args{"owner": "other"})
	time.Sleep(2 * time.Millisecond)
	w.text(t, "pty_read", args{"session_id": one, "timeout_ms": 0})
	list := w.text(t, "pty_list", args{})
	if strings.Count(list, `"session_id"`) != 2 || strings.Index(list, two) > strings.Index(list, one) || !strings.Contains(list, two) {
		t.Error(list)
	}
	if list := w.text(t, "pty_list", args{"tag": "b"}); strings.Contains(list, one) || !strings.Contains(list, two) {
		t.Error(list)
	}
}
