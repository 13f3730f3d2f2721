package ptymcp

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestKeys(t *testing.T) {
	for key, want := range map[string]string{
		"enter": "\r", "Enter": "\r", "ctrl-c": "\x03", "CTRL-C": "\x03", "ctrl-[": "\x1b", "ctrl-space": "\x00", "ctrl-?": "\x7f", "alt-b": "\x1bb", "meta-B": "\x1bB",
		"ctrl-alt-x": "\x1b\x18", "up": "\x1b[A", "ctrl-up": "\x1b[1;5A", "shift-alt-right": "\x1b[1;4C", "shift-tab": "\x1b[Z", "pageup": "\x1b[5~", "shift-pageup": "\x1b[5;2~",
		"f1": "\x1bOP", "ctrl-f1": "\x1b[1;5P", "f12": "\x1b[24~", "alt-enter": "\x1b\r", "a": "a", "é": "é", "shift-é": "É", "-": "-", "ctrl--": "", "ctrl-_": "\x1f", "alt--": "\x1b-",
		"ctrl-é": "", "ctrl-1": "", "hyper-x": "", "": "", "ab": "", "\n": "", "ctrl-enter": "", "ctrl-": "", "\xff": "�",
	} {
		got, err := sequences([]string{key}, false)
		if want == "" && fault.KindOf(err) != fault.Invalid || want != "" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v, not %q", key, got, err, want)
		}
	}
	for key, want := range map[string]string{
		"up": "\x1bOA", "Home": "\x1bOH", "end": "\x1bOF", "shift-up": "\x1b[1;2A", "alt-left": "\x1b[1;3D", "pageup": "\x1b[5~", "backtab": "\x1b[Z", "f1": "\x1bOP", "A": "A",
	} {
		if got, err := sequences([]string{key}, true); err != nil || got != want {
			t.Errorf("%q in application mode: %q, %v, not %q", key, got, err, want)
		}
	}
	if _, err := sequences(make([]string, maxKeys+1), false); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

// TestCursorKeys types keys into a program of curses. It sets the application mode of the cursor
// keys, and then knows only their sequences in this mode. After its end the normal mode is back.
func TestCursorKeys(t *testing.T) {
	testenv.NeedsTool(t, "python3")
	const program = `
import curses, sys
def main(window):
    for _ in range(7):
        window.addstr(curses.keyname(window.getch()).decode() + " ")
        window.refresh()
curses.wrapper(main)
`
	file := t.TempDir() + "/keys.py"
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("python3", "-c", "import curses").CombinedOutput(); err != nil {
		testenv.Lacks(t, "the module curses of python3: ", string(out))
	}
	for _, backend := range []string{"subprocess", "tmux"} {
		t.Run(backend, func(t *testing.T) {
			if backend == "tmux" {
				testenv.NeedsTool(t, "tmux")
			}
			w := newWorld(t, nil)
			id := w.spawn(t, "python3 "+file+`; stty raw -echo; echo ready; head -c 3 | od -An -c; exec sleep 1000`, args{"backend": backend})
			w.until(t, id, "\x1b[?1h")
			w.text(t, "pty_write", args{"session_id": id, "keys": []string{"pageup"}})
			w.until(t, id, "KEY_PPAGE")
			for _, keys := range [][]string{{"up", "down"}, {"left", "right", "home"}, {"end"}} {
				w.text(t, "pty_write", args{"session_id": id, "keys": keys})
			}
			if text := w.until(t, id, "ready"); !strings.Contains(text, "KEY_UP KEY_DOWN KEY_LEFT KEY_RIGHT KEY_HOME KEY_END") {
				t.Errorf("%q", text)
			}
			w.text(t, "pty_write", args{"session_id": id, "keys": []string{"up"}})
			w.until(t, id, "033   [   A")
		})
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"enter", "ctrl-c", "ctrl-shift-up", "alt--", "é", "ctrl-é", "\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		s, err := sequences([]string{key}, true)
		if err == nil && (s == "" || len(s) > 16 || !utf8.ValidString(s)) || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %q, %v", key, s, err)
		}
	})
}
