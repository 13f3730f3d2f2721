package ptymcp

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestPatternsSkipTheEcho checks that patterns match the output of programs, not the echo of typed
// text: with and without a line editor, typed at a prompt or ahead.
func TestPatternsSkipTheEcho(t *testing.T) {
	const typed = "sleep 0.1; echo build-finished\n"
	long := "echo " + strings.Repeat("x", 200) + " build-finished"
	for name, c := range map[string]struct {
		command, ready, ahead, data string
		keys                        []string
		echo                        bool // the output has the echo
		want                        string
	}{
		"bash":                    {"PS1='$ ' bash --norc", "$ ", "", typed, nil, true, "\rbuild-finished"},
		"bash, dumb":              {"TERM=dumb PS1='$ ' bash --norc", "$ ", "", typed, nil, true, "\nbuild-finished"},
		"bash without editor":     {"PS1='$ ' bash --norc --noediting", "$ ", "", typed, nil, true, "\nbuild-finished"},
		"bash, typed ahead":       {"PS1='$ ' bash --norc", "$ ", "sleep 0.5\n", typed, nil, true, "\rbuild-finished"},
		"bash, two lines":         {"PS1='$ ' bash --norc", "$ ", "", "true\n" + typed, nil, true, "\rbuild-finished"},
		"bash, a line that wraps": {"PS1='$ ' bash --norc", "$ ", "", long + "\n", nil, true, " build-finished"},
		"bash, keys":              {"PS1='$ ' bash --norc", "$ ", "", "echo build-finishe", []string{"d", "enter"}, true, "\rbuild-finished"},
		"tmux":                    {"PS1='$ ' bash --norc", "$ ", "", typed, nil, true, "\rbuild-finished"},
		"tmux, typed ahead":       {"PS1='$ ' bash --norc", "$ ", "sleep 0.5\n", typed, nil, true, "\rbuild-finished"},
		"dash":                    {"PS1='$ ' dash", "$ ", "", typed, nil, true, "\nbuild-finished"},
		"cat":                     {"echo ready; cat", "ready\r\n", "", "build-finished\n", nil, true, "\nbuild-finished"},
		"cat, twice":              {"echo ready; cat; cat", "ready\r\n", "x\n\x04", "build-finished\n", nil, true, "\nbuild-finished"},
		"no echo":                 {"stty -echo; echo ready; cat", "ready\r\n", "", "build-finished\n", nil, false, "build-finished"},
		"python":                  {"python3 -q", ">>> ", "", "print('build-finished')\n", nil, true, "build-finished"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := "subprocess"
			if strings.HasPrefix(name, "tmux") {
				backend = "tmux"
			}
			if name == "python" {
				testenv.NeedsTool(t, "python3")
			}
			w := newWorld(t, env{"CHECK_WRITES": "0"})
			id := w.spawn(t, c.command, args{"backend": backend})
			w.until(t, id, c.ready)
			if c.ahead != "" {
				w.text(t, "pty_write", args{"session_id": id, "data": c.ahead})
			}
			r := w.object(t, "pty_prompt", args{"session_id": id, "data": c.data, "keys": c.keys, "patterns": []string{"build-finished"}, "timeout_ms": 60000})
			text, _ := r["text"].(string)
			times := 1
			if c.echo {
				times = 2
			}
			if r["matched"] != true || !strings.HasSuffix(text, c.want) || strings.Count(text, "build-finished") < times {
				t.Errorf("%v", r)
			}
		})
	}
}

// TestPatternOnlyInTheEcho checks that a pattern does not match the echo of typed text. Reads must
// skip the echo too, even after the end of the session.
func TestPatternOnlyInTheEcho(t *testing.T) {
	w := newWorld(t, env{"CHECK_WRITES": "0"})
	for _, command := range []string{"PS1='$ ' bash --norc", "PS1='$ ' bash --norc --noediting"} {
		id := w.spawn(t, command)
		w.until(t, id, "$ ")
		r := w.object(t, "pty_prompt", args{"session_id": id, "data": "true build-finished\n", "patterns": []string{"build-finished"}, "timeout_ms": 2000})
		if text, _ := r["text"].(string); r["matched"] != false || !strings.Contains(text, "build-finished") {
			t.Errorf("%s: %v", command, r)
		}
		w.text(t, "pty_write", args{"session_id": id, "data": "true build-finished; echo ready\n"})
		r = w.object(t, "pty_read_until_any", args{"session_id": id, "patterns": []string{"build-finished", `re..y`}, "regex": true})
		if r["pattern"] != `re..y` || !strings.HasSuffix(r["text"].(string), "ready") || strings.Count(r["text"].(string), "ready") != 2 {
			t.Errorf("%s: %v", command, r)
		}
		w.text(t, "pty_write", args{"session_id": id, "data": "exit # build-finished\n"})
		w.object(t, "pty_wait", args{"session_id": id, "timeout_ms": 60000})
		if r := w.object(t, "pty_read_until", args{"session_id": id, "pattern": "build-finished"}); r["matched"] != false {
			t.Errorf("%s, ended: %v", command, r)
		}
	}
}

// TestLongLineIsRefused checks that input is refused if the terminal would cut off a line.
func TestLongLineIsRefused(t *testing.T) {
	w := newWorld(t, env{"CHECK_WRITES": "0"})
	for _, backend := range []string{"subprocess", "tmux"} {
		id := w.spawn(t, "stty -echo; echo ready; read -r line; echo got ${#line}.; stty -icanon; echo keys; head -c 6000 | wc -c; read", args{"backend": backend})
		w.until(t, id, "ready")
		long := strings.Repeat("x", 6000)
		w.refused(t, "pty_write", args{"session_id": id, "data": long + "\n"}, fault.Invalid, "a line of 6000 bytes")
		w.refused(t, "pty_prompt", args{"session_id": id, "data": "short\n" + long, "patterns": []string{"got"}}, fault.Invalid, "nothing was typed")
		w.text(t, "pty_write", args{"session_id": id, "data": long[:3000]})
		w.refused(t, "pty_write", args{"session_id": id, "data": long[:1096], "keys": []string{"enter"}}, fault.Invalid, "a line of 4096 bytes")
		w.text(t, "pty_write", args{"session_id": id, "data": long[:1095], "keys": []string{"enter"}})
		w.until(t, id, "got 4095.")
		w.until(t, id, "keys")
		w.text(t, "pty_write", args{"session_id": id, "data": long})
		w.until(t, id, "6000")
	}
}
