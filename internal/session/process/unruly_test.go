package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

var bothBackends = []session.Backend{session.Subprocess, session.Tmux}

// TestUnrulyProgramsAreKilled closes sessions whose programs try to survive, and checks that no
// process is left.
func TestUnrulyProgramsAreKilled(t *testing.T) {
	for name, command := range map[string]string{
		"ignores":    `trap '' HUP TERM INT; echo ready; while :; do sleep 0.1; done`,
		"daemonises": `(setsid sh -c '(trap "" HUP TERM; echo ready; while :; do sleep 0.1; done) &' &) ; sleep 1000`,
		"unmarked":   `(env -i setsid sh -c '(trap "" HUP TERM; cd /; exec <&- 2>&-; echo ready; exec >&-; while :; do sleep 0.1; done) &' &) ; sleep 1000`,
		"background": `sleep 1000 & disown; echo ready; sleep 1000`,
		"many":       `for i in $(seq 50); do sleep 1000 & done; echo ready; wait`,
	} {
		for _, backend := range bothBackends {
			t.Run(name+" "+string(backend), func(t *testing.T) {
				t.Parallel()
				endsWhole(t, backend, command)
			})
		}
	}
	t.Run("after its program", func(t *testing.T) {
		t.Parallel()
		for _, backend := range bothBackends {
			m := tmuxManager(t)
			s := inTmux(`setsid sleep 1000 >/dev/null 2>&1 & sleep 0.2; echo done`)
			s.Backend = backend
			spawn(t, m, s)
			all(t, m, s.ID, session.Output)
			if left := marked(s.ID); len(left) > 0 {
				t.Errorf("%s: left %v", backend, left)
			}
		}
	})
}

// endsWhole closes a session, and checks that none of its processes remain.
func endsWhole(t *testing.T, backend session.Backend, command string) {
	m := tmuxManager(t)
	s := inTmux(command)
	s.Backend = backend
	info := spawn(t, m, s)
	until(t, info, "ready")
	below := info.PID
	if backend == session.Subprocess {
		below = sessionProcessOf(t, info)
	}
	all := append(session.Descendants(below), info.PID)
	if len(all) < 2 {
		t.Errorf("got running processes %v", all)
	}
	if err := m.Close(t.Context(), info.ID); err != nil {
		t.Error(err)
	}
	for _, pid := range append(all, marked(info.ID)...) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 {
			t.Errorf("left %d: %q", pid, line)
		}
	}
	if _, err := m.Get(info.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it still exists: %v", err)
	}
}

// TestEndlessOutput checks a session with endless output. The session must keep to its disk limit,
// answer requests, and end when it is closed.
func TestEndlessOutput(t *testing.T) {
	for _, backend := range bothBackends {
		m := tmuxManager(t)
		s := inTmux(`trap '' HUP TERM; while :; do yes "$(seq 100)"; done`)
		s.Backend, s.OutputBytes = backend, 10_000
		info := spawn(t, m, s)
		l, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for want := int64(0); want < 20*s.OutputBytes; want = l.Len() + 1 {
			if err := info.Wait(t.Context(), session.Request{Cursor: want, Timeout: testenv.Patience}); err != nil || l.Len() < want {
				t.Fatalf("%s: %d bytes, and no more: %v", backend, l.Len(), err)
			}
			ask(t, info, session.Request{Op: session.OpCount})
			ask(t, info, session.Request{Op: session.OpResize, Cols: 90, Rows: 30})
			if look := ask(t, info, session.Request{Op: session.OpLook}).Look; len(look.Screen) == 0 {
				t.Errorf("%s: %+v", backend, look)
			}
		}
		if _, err := info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte("x\n")}); err != nil && fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%s: %v", backend, err)
		}
		if p, err := l.Read(0, 1<<20); err != nil || p.Dropped == 0 || int64(len(p.Data)) > s.OutputBytes {
			t.Errorf("%s: %d bytes, %d dropped: %v", backend, len(p.Data), p.Dropped, err)
		}
		total := int64(0)
		entries, _ := os.ReadDir(string(info.Folder))
		for _, e := range entries {
			if stat, err := e.Info(); err == nil {
				total += stat.Size()
			}
		}
		if total > s.OutputBytes+64<<10 {
			t.Errorf("%s: its folder has %d bytes", backend, total)
		}
		if err := m.Close(t.Context(), s.ID); err != nil {
			t.Errorf("%s: %v", backend, err)
		}
		nothingLeft(t, m)
	}
}

// TestCwdIsDeleted checks that starting a session in a deleted folder fails. It also checks that a
// running session continues if its folder is deleted.
func TestCwdIsDeleted(t *testing.T) {
	for _, backend := range bothBackends {
		m := tmuxManager(t)
		s := inTmux(`echo ready; read -r x; pwd -P; ls; touch file; read -r x; echo "got $x"; exit 5`)
		s.Backend, s.Cwd = backend, filepath.Join(t.TempDir(), "cwd")
		if _, err := m.Spawn(t.Context(), s, 20); fault.KindOf(err) != fault.Precondition || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: a cwd that is gone: %v", backend, err)
		}
		checkNothingLeft(t, m, s)
		if err := os.Mkdir(s.Cwd, 0o700); err != nil {
			t.Fatal(err)
		}
		info := spawn(t, m, s)
		until(t, info, "ready")
		if err := os.Remove(s.Cwd); err != nil {
			t.Fatal(err)
		}
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte("\n")})
		until(t, info, "cannot touch")
		ask(t, info, session.Request{Op: session.OpResize, Cols: 100, Rows: 50})
		ask(t, info, session.Request{Op: session.OpInput, Data: []byte("more\n")})
		if text, info := all(t, m, s.ID, session.Output); !strings.Contains(text, "got more") || *info.ExitCode != 5 {
			t.Errorf("%s: %q, %+v", backend, text, info.State)
		}
	}
}

// TestEndedLogsAreComplete checks that the logs are complete as soon as the state says that the
// session ended.
func TestEndedLogsAreComplete(t *testing.T) {
	m := manager(t)
	for range 10 {
		s := spec("true")
		s.LogFolder = t.TempDir()
		info := spawn(t, m, s)
		l, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for deadline := time.Now().Add(testenv.Patience); info.State.Running(); {
			if info.State, _, err = info.Folder.State(); err != nil || time.Now().After(deadline) {
				t.Fatalf("%+v, %v", info.State, err)
			}
		}
		if !l.Ended() {
			t.Fatal("it has ended, and its output has not")
		}
	}
}

// TestUnreadableSessions checks that damaged sessions do not affect other sessions. It also checks
// that damaged sessions are removed after the grace period.
func TestUnreadableSessions(t *testing.T) {
	m := manager(t)
	kept := spawn(t, m, spec("sleep 1000"))
	var broken []session.Info
	for _, file := range []string{"spec.json", "state.json"} {
		s := spec("true")
		spawn(t, m, s)
		_, info := all(t, m, s.ID, session.Output)
		for info.Folder.HasProcess() {
			time.Sleep(time.Millisecond)
		}
		if err := os.WriteFile(filepath.Join(string(info.Folder), file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-m.Grace / 2)
		if err := os.Chtimes(string(info.Folder), old, old); err != nil {
			t.Fatal(err)
		}
		broken = append(broken, info)
	}
	m = &session.Manager{Root: m.Root, Program: m.Program, Grace: m.Grace} // a manager with an empty cache
	for _, info := range broken {
		if _, err := m.Get(info.ID); fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%v", err)
		}
	}
	if all, err := m.List(); err != nil || len(all) != 1 || all[0].ID != kept.ID {
		t.Errorf("%v, %v", all, err)
	}
	spawn(t, m, spec("true"))
	if err := m.Collect(time.Now()); err != nil {
		t.Error(err)
	}
	for _, info := range broken {
		if _, err := os.Stat(string(info.Folder)); err != nil {
			t.Errorf("it is gone at once: %v", err)
		}
	}
	if err := m.Collect(time.Now().Add(2 * m.Grace)); err != nil {
		t.Error(err)
	}
	for _, info := range broken {
		if _, err := os.Stat(string(info.Folder)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was never deleted: %v", err)
		}
	}
	if now := after(t, m, kept.ID); !now.Running() {
		t.Errorf("%+v", now)
	}
}
