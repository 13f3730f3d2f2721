package ptymcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestTypedState checks that the last state is read, or the previous state if the last one is
// incomplete.
func TestTypedState(t *testing.T) {
	info := session.Info{Spec: session.Spec{Command: "bash"}, Folder: session.Folder(t.TempDir())}
	rules := env{}.config(t).Rules
	open := func() *typedState {
		t.Helper()
		s, err := openTyped(t.Context(), info)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	path := filepath.Join(string(info.Folder), "typed")
	want := entries{Shell: danger.Typing("bash")}
	for _, text := range []string{"a", "b\n", "x=1\n", "echo '", "日"} {
		s := open()
		if s.typed != want {
			t.Fatalf("before %q: %+v, not %+v", text, s.typed, want)
		}
		before := want
		next, _ := rules.Type(s.now, s.start, []byte(text))
		want = s.with(next)
		if err := s.keep(want); err != nil {
			t.Fatal(err)
		}
		slot := int64(s.number % 2)
		s.close()
		// If the last slot is cut off at any byte, the result is the previous state or an empty
		// state.
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range int64(slotHead + 4) {
			torn := append([]byte(nil), whole...)
			for i := slot*slotSize + cut; i < min(int64(len(torn)), (slot+1)*slotSize); i++ {
				torn[i] = 0
			}
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openTyped(t.Context(), info)
			switch {
			case err == nil && s.typed != before && s.typed != want:
				t.Fatalf("%q cut off at %d: %+v", text, cut, s.typed)
			case err != nil && (fault.KindOf(err) != fault.Corrupt || before != (entries{Shell: danger.Typing("bash")})):
				t.Fatalf("%q cut off at %d: %v", text, cut, err)
			case err == nil:
				s.close()
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEnteredLinesAreForgotten checks that the file does not contain entered or deleted lines,
// because they may be passwords.
func TestEnteredLinesAreForgotten(t *testing.T) {
	rules := env{}.config(t).Rules
	for _, typed := range [][]string{
		{"hunter2", "\r"}, {"hun", "ter", "2", "\r"}, {"hunter2", "\r", "ls\r"}, {"hunter2", "\rls; a much longer line, and the next"}, {"ls; a much longer line", "\r", "hunter2", "\x15"},
		{"hunter2", "\x03"}, {"hunter2", strings.Repeat("\x7f", 7)}, {"hunter2 and more", strings.Repeat("\x7f", 9), "\r"},
	} {
		info := session.Info{Spec: session.Spec{Command: "bash"}, Folder: session.Folder(t.TempDir())}
		for _, text := range typed {
			s, err := openTyped(t.Context(), info)
			if err != nil {
				t.Fatal(err)
			}
			next, _ := rules.Type(s.now, s.start, []byte(text))
			if err := s.keep(s.with(next)); err != nil {
				t.Fatal(err)
			}
			s.close()
		}
		b, err := os.ReadFile(filepath.Join(string(info.Folder), "typed"))
		if err != nil || bytes.Contains(b, []byte("hunt")) {
			t.Errorf("%q: %v, %q", typed, err, bytes.ReplaceAll(b, []byte{0}, nil))
		}
	}
}

// TestPasswordIsNotKept types passwords into a program that a shell runs. It checks that these
// lines do not become part of the shell's state.
func TestPasswordIsNotKept(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `PS1='$ ' exec bash --norc --noediting`)
	for _, password := range [][]string{{"pass=hunter2\n"}, {"it's hunter2\n"}, {"hun", "ter2 \\", "\n"}} {
		w.until(t, id, "$ ")
		w.text(t, "pty_write", args{"session_id": id, "data": "stty -echo; head -n 1 >/dev/null; stty echo\n"})
		info, err := w.sessions.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
			a, err := info.Ask(t.Context(), session.Request{Op: session.OpCount})
			if err == nil && a.Count.Hidden {
				break
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("it asks for no password: %+v, %v", a, err)
			}
		}
		for _, text := range password {
			w.text(t, "pty_write", args{"session_id": id, "data": text})
		}
		b, err := os.ReadFile(filepath.Join(string(info.Folder), "typed"))
		if err != nil || bytes.Contains(b, []byte("hun")) {
			t.Errorf("%q: %v, %q", password, err, bytes.ReplaceAll(b, []byte{0}, nil))
		}
	}
	// The shell's own state must not have changed.
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "x=rm\n"})
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "stty -echo\n"})
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "r\\\n"})
	w.refused(t, "pty_write", args{"session_id": id, "data": "m -rf /\n"}, fault.Permission, "dangerous command detected")
}

// TestTypedToPrograms types into programs that a shell runs. It checks that their input does not
// count as lines of the shell.
func TestTypedToPrograms(t *testing.T) {
	for _, backend := range []string{"subprocess", "tmux"} {
		t.Run(backend, func(t *testing.T) {
			w := newWorld(t, nil)
			folder := t.TempDir()
			id := w.spawn(t, `PS1='$ ' exec bash --norc`, args{"cwd": folder, "backend": backend})
			prompt := func() { t.Helper(); w.until(t, id, "$ ") }
			types := func(data string, keys ...string) {
				t.Helper()
				w.text(t, "pty_write", args{"session_id": id, "data": data, "keys": keys})
			}
			harms := func(data string) {
				t.Helper()
				w.refused(t, "pty_write", args{"session_id": id, "data": data}, fault.Permission, "dangerous command detected")
			}
			prompt()
			// A pager ends when it reads a single key.
			types("seq 1000 >list; less list\n")
			w.until(t, id, "list")
			w.shows(t, id, func(s map[string]any) bool { return s["alternate_screen"] == true })
			types("", "down", "up")
			harms("!rm -rf /\n")
			types("q")
			w.shows(t, id, func(s map[string]any) bool { return s["alternate_screen"] == false && s["hint"] == "at_prompt" })
			harms("rm -rf /\n") // the earlier input went to the pager, so the shell's line is empty
			types("\x15echo again\n")
			w.until(t, id, "again\r\n")
			// An editor gets keys that would edit a line in a shell.
			types("vim -u NONE -N new.txt\n")
			w.shows(t, id, func(s map[string]any) bool { return s["alternate_screen"] == true })
			types("ifor (x", "escape", "up", "left")
			types(":wq\n")
			w.shows(t, id, func(s map[string]any) bool { return s["alternate_screen"] == false && s["hint"] == "at_prompt" })
			if b, err := os.ReadFile(filepath.Join(folder, "new.txt")); err != nil || string(b) != "for (x\n" {
				t.Errorf("%q, %v", b, err)
			}
			types("echo between\n")
			w.until(t, id, "between\r\n")
			// An interpreter ends on Ctrl-D, which the shell does not get.
			types("python3 -q\n")
			w.until(t, id, ">>> ")
			types("for n in [6]:\n    print(n * '7', f'{n!r}')\n\n")
			w.until(t, id, "777777 6")
			w.until(t, id, ">>> ")
			types("", "left", "right")
			harms("import os; os.system('rm -rf /')\n")
			interruptPython(t, w, id) // Python reads a line, whether or not it already contains text
			types("import sys; sys.exit()\n")
			w.until(t, id, "$ ")
			types("echo $((6 * 7)) it is\n")
			w.until(t, id, "42 it is\r\n")
			harms("print('a')\n")
		})
	}
}

// interruptPython types Ctrl-C at a Python prompt and waits for the next prompt. It may have to try
// again: while the kernel drops input because of Ctrl-C, select can still report that input. Python
// then waits for a key and ignores the Ctrl-C.
func interruptPython(t *testing.T, w *world, id string) {
	t.Helper()
	for range 5 {
		w.text(t, "pty_write", args{"session_id": id, "keys": []string{"ctrl-c"}})
		r := w.object(t, "pty_read_until", args{"session_id": id, "pattern": ">>> ", "timeout_ms": 10000})
		if r["matched"] == true {
			return
		}
		w.text(t, "pty_write", args{"session_id": id, "data": "x"})
		w.shows(t, id, func(s map[string]any) bool { return strings.HasSuffix(s["text"].(string), "x") })
	}
	t.Fatal("Python does not react to Ctrl-C")
}

// shows waits until the screen meets a condition.
func (w *world) shows(t *testing.T, id string, is func(map[string]any) bool) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
		s := w.object(t, "pty_screen", args{"session_id": id})
		if is(s) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("state: %v", s)
		}
	}
}
