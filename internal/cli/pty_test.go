package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
)

// TestPTYAttach has a person take a session that an agent has, use it, and give it back.
func TestPTYAttach(t *testing.T) {
	env, state := hostEnv(t)
	env = append(env, "HOME="+t.TempDir())
	m := &session.Manager{Root: state + "/sessions", Program: func() (string, error) { return programs.pyro, nil }, Grace: time.Hour}
	now := time.Now()
	spec := session.Spec{
		ID: session.NewID(now, os.Getpid()), Name: "build", Owner: "agent", Scope: session.ReadWrite, Command: "PS1='> ' exec bash --norc -i", Cwd: "/",
		Cols: 80, Rows: 24, Backend: session.Subprocess, OutputBytes: 1 << 20, CreatedAt: now, Env: map[string]string{"HOME": t.TempDir()},
	}
	info, err := m.Spawn(t.Context(), spec, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context(), info.ID)
	if err := m.Attach(t.Context(), info.ID, "agent-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte("echo before $((1+1))\n")}); err != nil {
		t.Fatal(err)
	}
	list := func(want string) {
		t.Helper()
		cmd := exec.Command(programs.pyro, "pty", "list")
		cmd.Env = env
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, it has no %q:\n%s", err, want, out)
		}
	}
	list("agent-1")

	s := onTerminal(t, env, "pty", "attach", "build")
	s.await(`the client "agent-1" has it`)
	s.await("pyro pty attach " + info.ID + " --take")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}

	s = onTerminal(t, env, "pty", "attach", "build", "--take", "--detach-key", "ctrl-x")
	s.await(`taken over from "agent-1"`)
	s.await("before 2")
	list("person-")
	s.typed("stty size; echo typed $((1+2))\r")
	s.await("30 100")
	s.await("typed 3")
	s.typed("\x18")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	s.await(": it goes on")
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal was left changed: %+v, was %+v", after, s.before)
	}
	list("agent-1")

	s = onTerminal(t, env, "pty", "attach", info.ID, "--take")
	s.await("typed 3")
	s.typed("exit 3\r")
	s.await(": it has ended")
	list("exited (3)")
}
