package cli

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// spawned starts a session with the name "build".
func spawned(t *testing.T, state, command string) (*session.Manager, session.Info) {
	t.Helper()
	m := &session.Manager{Root: state + "/sessions", Program: func() (string, error) { return programs.pyro, nil }, Grace: time.Hour}
	now := time.Now()
	spec := session.Spec{
		ID: session.NewID(now, os.Getpid()), Name: "build", Owner: "agent", Scope: session.ReadWrite, Command: command, Cwd: "/",
		Cols: 80, Rows: 24, Backend: session.Subprocess, OutputBytes: 1 << 20, CreatedAt: now, Env: map[string]string{"HOME": t.TempDir()},
	}
	info, err := m.Spawn(t.Context(), spec, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background(), info.ID) })
	return m, info
}

// TestPTYAttach checks that a user can take over an agent's session, use it, and give it back.
func TestPTYAttach(t *testing.T) {
	env, state := hostEnv(t)
	env = append(env, "HOME="+t.TempDir())
	m, info := spawned(t, state, "PS1='> ' exec bash --norc -i")
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
	s.await(`the client "agent-1" has had the lease since`)
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
	s.await(": it still runs")
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal settings changed: got %+v, want %+v", after, s.before)
	}
	list("agent-1")

	s = onTerminal(t, env, "pty", "attach", info.ID, "--take")
	s.await("typed 3")
	s.typed("exit 3\r")
	s.await(": it has ended")
	list("exited (3)")
}

// TestPTYSendSecret sends secrets from a terminal without echo and from a pipe. The output of the
// session must contain neither secret.
func TestPTYSendSecret(t *testing.T) {
	env, state := hostEnv(t)
	env = append(env, "HOME="+t.TempDir())
	_, info := spawned(t, state, `for i in 1 2; do read -rsp 'Password: ' p; echo; echo "got $p, ${#p}"; done; exec cat`)
	printed := func(text string) string {
		t.Helper()
		log, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		for deadline := time.Now().Add(testenv.Patience); ; {
			p, err := log.Read(0, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(p.Data), text) {
				return string(p.Data)
			}
			if time.Now().After(deadline) {
				t.Fatalf("it did not print %q: %q", text, p.Data)
			}
			info.Wait(t.Context(), session.Request{Cursor: p.Next, Timeout: time.Second})
		}
	}

	s := onTerminal(t, env, "pty", "send-secret", "build")
	s.await("Secret for " + info.ID)
	s.typed("\x03")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal settings changed: got %+v, want %+v", after, s.before)
	}

	s = onTerminal(t, env, "pty", "send-secret", "build")
	s.await("Secret for " + info.ID)
	s.typed("open sesame\r")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || strings.Contains(s.text(), "sesame") {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	printed("got [REDACTED], 11\r\n")

	send := func(text string, args ...string) (string, int) {
		cmd := exec.Command(programs.pyro, append([]string{"pty", "send-secret"}, args...)...)
		cmd.Env, cmd.Stdin = env, strings.NewReader(text)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		text string
		args []string
		code int
		says string
	}{
		{"another one\nand more", []string{"build"}, 0, ""},
		{"abc\n", []string{"build"}, 2, "fewer than 4 characters"},
		{"another one\n", []string{"other"}, 3, "no running terminal has this ID or name"},
		{"third one", []string{info.ID, "--shown", "--no-enter"}, 0, ""},
	} {
		if slices.Contains(c.args, "--shown") { // only the next read shows its input
			printed("got [REDACTED], 11\r\nPassword: \r\ngot [REDACTED], 11\r\n")
		}
		if out, code := send(c.text, c.args...); code != c.code || !strings.Contains(out, c.says) || c.says == "" && out != "" {
			t.Errorf("%q, %q: exit code %d: %s", c.text, c.args, code, out)
		}
	}
	if all := printed("got [REDACTED], 11\r\n[REDACTED]"); strings.Contains(all, "one") {
		t.Errorf("it printed %q", all)
	}
}
