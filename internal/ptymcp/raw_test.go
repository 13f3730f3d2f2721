package ptymcp

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestRawInput sends arguments that no correct client sends. Each call must either return one clear
// error or succeed. No call may damage the session.
func TestRawInput(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1", "ENABLE_ADMIN_TOOLS": "1"})
	id := w.spawn(t, "stty -echo; echo ready; cat", args{"scope": "control"})
	w.until(t, id, "ready\r\n")
	call := func(tool, arguments string) (json.RawMessage, error) {
		return w.mcp.Call(t.Context(), tool, json.RawMessage(strings.ReplaceAll(arguments, "ID", `"session_id":"`+id+`","owner":"me"`)), nil)
	}
	long, much := strings.Repeat("x", 100_000), strings.Repeat("x", 1<<20)
	deep := strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000)
	circle := t.TempDir() + "/circle"
	if err := os.Symlink(circle, circle); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		tool, args string
		kind       fault.Kind
	}{
		{"pty_read_at", `{ID,"offset":9223372036854775808}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":1e400}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":-9223372036854775808}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":"0x10"}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":1.5}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":"NaN"}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":NaN}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":[1]}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":true}`, fault.Invalid},
		{"pty_read_at", `{ID,"offset":` + deep + `}`, fault.Invalid},
		{"pty_read", `{ID,"max_chars":"Infinity"}`, fault.Invalid},
		{"pty_read", `{ID,"max_chars":1e18}`, fault.Invalid},
		{"pty_read", `{ID,"timeout_ms":1e300}`, fault.Invalid},
		{"pty_read_quiescent", `{ID,"quiescence_ms":99999999999999999999}`, fault.Invalid},
		{"pty_wait", `{ID,"timeout_ms":"-0.5"}`, fault.Invalid},
		{"pty_resize", `{ID,"cols":"","rows":""}`, fault.Invalid},
		{"pty_resize", `{ID,"cols":4294967376,"rows":24}`, fault.Invalid},
		{"pty_resize", `{ID,"cols":{},"rows":24}`, fault.Invalid},
		{"pty_signal", `{ID,"sig":9}`, fault.Invalid},
		{"pty_signal", `{ID,"sig":""}`, fault.Invalid},
		{"pty_signal", `{ID,"sig":"KILL\u0000"}`, fault.Invalid},
		{"pty_signal", `{ID,"sig":"` + long + `"}`, fault.Invalid},
		{"pty_write", `{ID,"data":["x"]}`, fault.Invalid},
		{"pty_write", `{ID,"keys":"enter"}`, fault.Invalid},
		{"pty_write", `{ID,"keys":[1]}`, fault.Invalid},
		{"pty_write", `{ID,"keys":["` + long + `"]}`, fault.Invalid},
		{"pty_read_until", `{ID,"pattern":"` + long + `"}`, fault.Invalid},
		{"pty_read_until", `{ID,"pattern":"(x{1000}){1000}","regex":true}`, fault.Invalid},
		{"pty_read_until", `{ID,"pattern":"` + strings.Repeat("(", 4000) + `","regex":true}`, fault.Invalid},
		{"pty_read_until_any", `{ID,"patterns":{"0":"x"}}`, fault.Invalid},
		{"pty_attach", `{ID,"client_id":"` + long + `"}`, fault.Invalid},
		{"pty_status", `{"session_id":"` + long + `","owner":"me"}`, fault.NotFound},
		{"pty_status", `{"session_id":"1\u0000","owner":"me"}`, fault.NotFound},
		{"pty_status", `{"session_id":` + deep + `,"owner":"me"}`, fault.Invalid},
		{"pty_status", `[]`, fault.Invalid},
		{"pty_status", `"ID"`, fault.Invalid},
		{"pty_status", `{`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"` + much + `"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":{"A":"` + much + `"}}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":{"A\u0000":"x"}}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":{"A":"\u0000"}}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":{"":"x"}}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":{"A":{"B":1}}}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","env":` + deep + `}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","cwd":"/\u0000"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","cwd":"` + long + `"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","cwd":"/` + strings.Repeat("x", 4000) + `"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","cwd":"` + circle + `"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","name":"\u0000"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"` + long + `","command":"true"}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","cols":1e9}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","spawn_timeout_sec":9223372036854775807}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","max_output_bytes":1e-9}`, fault.Invalid},
		{"pty_spawn", `{"owner":"me","command":"true","scope":"ADMIN"}`, fault.Invalid},
		{"confirm_dangerous_command", `{ID,"command":"` + strings.Repeat("$(", 2_000) + `","justification":"` + long + `"}`, ""},
		{"set_limits", `{"read_timeout_ms":-1}`, fault.Invalid},
		{"set_default_cwd", `{"cwd":"\u0000"}`, fault.Invalid},
		{"pty_write", `{ID,"data":"lone \ud800\n"}`, fault.Invalid},
		{"pty_write", `{ID,"data":"bytes ` + "\xff\xfe" + `\n"}`, fault.Invalid},
	} {
		name := fmt.Sprintf("%s %.120s", row.tool, row.args)
		raw, err := call(row.tool, row.args)
		switch {
		case row.kind != "" && fault.KindOf(err) != row.kind:
			t.Errorf("%s: %.200s, %.300v (%s)", name, raw, err, fault.KindOf(err))
		case err != nil && (len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) || fault.KindOf(err) == fault.Internal):
			t.Errorf("%s: %d bytes of error (%s): %.300s", name, len(err.Error()), fault.KindOf(err), err)
		}
	}
	// These are unusual forms that the server accepts.
	for _, row := range [][3]string{
		{"pty_read_at", `{ID,"offset":9223372036854775807}`, `"text":""`},
		{"pty_read_at", `{ID,"offset":"1e3"}`, `"text":""`},
		{"pty_read_at", `{ID,"offset":1.0,"max_chars":"3"}`, `"text":"ead"`},
		{"pty_resize", `{ID,"cols":"80.0","rows":2.4e1}`, `"ok"`},
		{"pty_write", `{ID,"data":"nul \u0000 text\n"}`, `"ok"`},
	} {
		if raw, err := call(row[0], row[1]); err != nil || !strings.Contains(string(raw), row[2]) {
			t.Errorf("%s %.120s: %s, %v", row[0], row[1], raw, err)
		}
	}
	w.until(t, id, " text\r\n")
	if list, _ := w.leftovers(t); len(list) != 1 {
		t.Errorf("%q", list)
	}
	st := w.object(t, "pty_status", args{"session_id": id})
	if st["running"] != true || st["cols"] != 80.0 || st["rows"] != 24.0 || st["log_error"] != nil {
		t.Errorf("%v", st)
	}
}

// TestLogErrorIsReported checks that pty_status reports why the log of a running session can't be
// written.
func TestLogErrorIsReported(t *testing.T) {
	w := newWorld(t, env{"SESSION_LOG_DIR": "/proc/no such folder"})
	id := w.spawn(t, "read -r x; echo got $x; exit 3")
	w.text(t, "pty_write", args{"session_id": id, "data": "x\n"})
	w.until(t, id, "got x")
	if st := w.object(t, "pty_status", args{"session_id": id}); !strings.Contains(fmt.Sprint(st["log_error"]), "/proc/no such folder") {
		t.Errorf("%v", st["log_error"])
	}
	if r := w.object(t, "pty_wait", args{"session_id": id}); r["exit_code"] != 3.0 {
		t.Errorf("%v", r)
	}
}
