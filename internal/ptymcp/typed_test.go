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
)

// TestTypedState has what was kept last be there, and what was kept before it where the last was cut off.
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
	want := danger.Typing("bash")
	for _, text := range []string{"a", "b\n", "x=1\n", "echo '", "日"} {
		s := open()
		if s.typed != want {
			t.Fatalf("before %q: %+v, not %+v", text, s.typed, want)
		}
		before := want
		want, _ = rules.Type(s.typed, []byte(text))
		if err := s.keep(want); err != nil {
			t.Fatal(err)
		}
		place := int64(s.number % 2)
		s.close()
		// Cut off at any byte it is the one before, or as if nothing was ever there.
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range int64(placeHead + 4) {
			torn := append([]byte(nil), whole...)
			for i := place*placeSize + cut; i < min(int64(len(torn)), (place+1)*placeSize); i++ {
				torn[i] = 0
			}
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openTyped(t.Context(), info)
			switch {
			case err == nil && s.typed != before && s.typed != want:
				t.Fatalf("%q cut off at %d: %+v", text, cut, s.typed)
			case err != nil && (fault.KindOf(err) != fault.Corrupt || before != danger.Typing("bash")):
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

// TestTypedIsForgotten has a line be nowhere in the file once it is entered, or taken back: it may be a password.
func TestTypedIsForgotten(t *testing.T) {
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
			next, _ := rules.Type(s.typed, []byte(text))
			if err := s.keep(next); err != nil {
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

// TestPasswordIsNotKept types passwords into a program below a shell, of which the shell would remember the line, or wait for more.
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
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
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
	// What the shell itself reads is known as before.
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "x=rm\n"})
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "stty -echo\n"})
	w.until(t, id, "$ ")
	w.text(t, "pty_write", args{"session_id": id, "data": "r\\\n"})
	w.refused(t, "pty_write", args{"session_id": id, "data": "m -rf /\n"}, fault.Permission, "dangerous command detected")
}
