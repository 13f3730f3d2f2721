package ptymcp

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestLifecycle(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `stty size; read -r x; echo "got $x"; exit 7`, args{"name": "shell", "tag": "a"})
	if text := w.until(t, id, "30 120"); text != "30 120" {
		t.Errorf("%q", text)
	}
	if got := w.text(t, "pty_write", args{"session_id": id, "data": "é\n"}); got != "ok" {
		t.Error(got)
	}
	w.until(t, id, "got é")
	if r := w.object(t, "pty_wait", args{"session_id": id}); r["running"] != false || r["exit_code"] != 7.0 || r["exit_reason"] != "exited" {
		t.Errorf("%v", r)
	}
	if text := w.text(t, "pty_read", args{"session_id": id}); text != "\r\n" {
		t.Errorf("got remaining output %q", text)
	}
	st := w.object(t, "pty_status", args{"session_id": id})
	if st["running"] != false || st["exit_code"] != 7.0 || st["name"] != "shell" || st["tag"] != "a" || st["bytes_written"] != 3.0 || st["buffer_bytes"] != 0.0 || st["attached_client_id"] != nil {
		t.Errorf("%v", st)
	}
	w.refused(t, "pty_write", args{"session_id": id, "data": "x"}, fault.Precondition, "it has ended")
	if got := w.text(t, "pty_close", args{"session_id": id}); got != "ok" {
		t.Error(got)
	}
	w.refused(t, "pty_status", args{"session_id": id}, fault.NotFound, "unknown session_id")
	if list := w.text(t, "pty_list", args{}); list != "[]" {
		t.Error(list)
	}
}

func TestStreams(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, "echo out; echo err >&2; sleep 1000", args{"separate_streams": "true"})
	w.until(t, id, "\n")
	for tool, want := range map[string]string{"pty_read_stdout": "out\n", "pty_read_stderr": "err\n"} {
		if got := w.text(t, tool, args{"session_id": id, "timeout_ms": "60000"}); got != want {
			t.Errorf("%s: %q", tool, got)
		}
		if got := w.text(t, tool, args{"session_id": id, "timeout_ms": 0}); got != "" {
			t.Errorf("%s again: %q", tool, got)
		}
	}
	r := w.object(t, "pty_read_at", args{"session_id": id, "stream": "stderr", "offset": "1"})
	if r["text"] != "rr\n" || r["next_offset"] != 4.0 || r["stream"] != "stderr" || r["truncated"] != false {
		t.Errorf("%v", r)
	}
	id = w.spawn(t, "sleep 1000")
	w.refused(t, "pty_read_stderr", args{"session_id": id}, fault.Precondition, "without separate_streams")
}

func TestReads(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `read -r; printf 'one\ntwo\nthree'; read -r`)
	if got := w.text(t, "pty_read", args{"session_id": id, "timeout_ms": 50}); got != "" {
		t.Errorf("nothing is printed yet: %q", got)
	}
	r := w.object(t, "pty_prompt", args{"session_id": id, "data": "\n", "patterns": []string{"two", "one\r\nt"}})
	if r["matched"] != true || r["pattern"] != "one\r\nt" || !strings.HasSuffix(r["text"].(string), "one\r\nt") {
		t.Errorf("%v", r)
	}
	r = w.object(t, "pty_read_until", args{"session_id": id, "pattern": `w.\s+t`, "regex": true})
	if r["matched"] != true || r["text"] != "wo\r\nt" || r["stream"] != "pty" {
		t.Errorf("%v", r)
	}
	r = w.object(t, "pty_read_until_any", args{"session_id": id, "patterns": []string{"never"}, "timeout_ms": 50})
	if pattern, there := r["pattern"]; r["matched"] != false || r["text"] != "hree" || pattern != nil || !there {
		t.Errorf("%v", r)
	}
	chunk := w.object(t, "pty_read", args{"session_id": id, "format": "json", "timeout_ms": 0})
	if chunk["text"] != "" || chunk["stream"] != "pty" || chunk["chunk_id"] == nil || chunk["timestamp"] == nil {
		t.Errorf("%v", chunk)
	}
	w.text(t, "pty_write", args{"session_id": id, "data": "\n"})
	if got := w.text(t, "pty_read_quiescent", args{"session_id": id, "quiescence_ms": 100}); got != "\r\n" {
		t.Errorf("%q", got)
	}
}

// TestTmux uses sessions in tmux panes that share a tmux session. It also calls tools that do not
// support tmux.
func TestTmux(t *testing.T) {
	w := newWorld(t, nil)
	shared := args{"backend": "tmux", "tmux_workspace": "w"}
	id := w.spawn(t, `read -r x; printf "pane-a:%s" "$x"; exit 5`, shared, args{"name": "pane-a"})
	other := w.spawn(t, `read -r x; sleep 1000`, shared, args{"name": "pane-b"})
	w.object(t, "pty_attach", args{"session_id": id, "client_id": "one"})
	w.refused(t, "pty_attach", args{"session_id": other, "client_id": "two"}, fault.Precondition, `attached to the client "one"`)
	w.text(t, "pty_write", args{"session_id": id, "client_id": "one", "data": "é\n"})
	if r := w.object(t, "pty_read_until", args{"session_id": id, "client_id": "one", "pattern": "pane-a:é"}); r["matched"] != true {
		t.Errorf("%v", r)
	}
	if r := w.object(t, "pty_wait", args{"session_id": id}); r["exit_code"] != 5.0 {
		t.Errorf("%v", r)
	}
	if r := w.object(t, "pty_recover", args{"name": "pane-b"}); r["session_id"] != other || r["recovered"] != false {
		t.Errorf("%v", r)
	}
	w.refused(t, "pty_spawn", args{"command": "true", "backend": "tmux", "separate_streams": true}, fault.Unsupported, "separate_streams=true is not supported")
	w.text(t, "pty_close", args{"session_id": other})
}
