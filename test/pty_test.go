//go:build machine

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// terminal is a terminal session in a workspace.
type terminal struct {
	t       *testing.T
	p       *program
	manager *session.Manager
	info    session.Info
}

// openTerminal starts a session in a workspace with pty-mcp, in the same way as users do.
func openTerminal(t *testing.T, p *program, id, command string, change func(*session.Spec)) *terminal {
	t.Helper()
	t.Setenv("PYRO_STATE_DIR", p.state)
	m := &session.Manager{Root: p.state + "/sessions", Program: func() (string, error) { return filepath.Abs("../bin/pty-mcp") }, Grace: time.Hour}
	now := time.Now()
	s := session.Spec{
		ID: session.NewID(now, os.Getpid()), Scope: session.ReadWrite, Command: command, Cwd: "/workspace", Cols: 90, Rows: 20,
		Backend: session.Workspace, WorkspaceID: id, OutputBytes: 1 << 20, CreatedAt: now, Env: map[string]string{"ANSWER": "the answer is 42"},
	}
	if change != nil {
		change(&s)
	}
	info, err := m.Spawn(t.Context(), s, 10)
	if err != nil {
		t.Fatal(err)
	}
	s1 := &terminal{t, p, m, info}
	t.Cleanup(func() { m.Close(t.Context(), info.ID) })
	return s1
}

// until waits until the stream contains a text. It returns the whole stream.
func (s *terminal) until(stream session.Stream, text string) string {
	s.t.Helper()
	l, err := s.info.Folder.Log(stream)
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	for began := time.Now(); ; {
		piece, err := l.Read(0, 1<<20)
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.Contains(string(piece.Data), text) {
			return string(piece.Data)
		}
		if time.Since(began) > patience || piece.Ended {
			log, _ := os.ReadFile(string(s.info.Folder) + "/keeper.log")
			s.t.Fatalf("it did not print %q: %q; %s", text, piece.Data, log)
		}
		s.info.Wait(s.t.Context(), session.Request{Stream: stream, Cursor: piece.Next, Timeout: time.Second})
	}
}

func (s *terminal) ask(req session.Request) {
	s.t.Helper()
	if _, err := s.info.Ask(s.t.Context(), req); err != nil {
		s.t.Fatal(err)
	}
}

func (s *terminal) typed(text string) {
	s.t.Helper()
	s.ask(session.Request{Op: session.OpInput, Data: []byte(text)})
}

// end waits until the session has ended and returns its state.
func (s *terminal) end() session.State {
	s.t.Helper()
	for began := time.Now(); ; {
		info, err := s.manager.Get(s.info.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		if !info.Running() {
			return info.State
		}
		if time.Since(began) > patience {
			s.t.Fatal("it did not end")
		}
		info.Wait(s.t.Context(), session.Request{UntilEnd: true, Timeout: time.Second})
	}
}

func (s *terminal) close() {
	s.t.Helper()
	if err := s.manager.Close(s.t.Context(), s.info.ID); err != nil {
		s.t.Fatal(err)
	}
}

// awaitNoProcess waits until no program in the workspace has the given argument.
func (p *program) awaitNoProcess(id, argument string) {
	p.t.Helper()
	testenv.Eventually(p.t, "no program with "+argument+" runs", func() bool { return p.shell(id, "grep -lz '^"+argument+"$' /proc/[0-9]*/cmdline | wc -l") == "0\n" })
}

// TestWorkspaceSession checks the terminal of a session in a workspace: name, folder, size,
// environment, signals, exit code and end. The session's environment must not be visible in the
// arguments of any process on the host.
func TestWorkspaceSession(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	s := openTerminal(t, p, id, "PS1='> ' exec bash --norc", func(s *session.Spec) { s.Env["VALUE"] = "not-in-arguments-98765" })
	s.until(session.Output, "> ")
	s.typed("hostname; pwd; stty size; echo \"$ANSWER\"; PS1='re''ady> '\n")
	// Before each prompt, bash reads the size of the terminal and sets it again. So a new size
	// could be reverted until there is a prompt.
	for _, text := range []string{id, "/workspace", "20 90", "the answer is 42", "ready> "} {
		s.until(session.Output, text)
	}
	s.ask(session.Request{Op: session.OpResize, Cols: 100, Rows: 30})
	s.typed("stty size\n")
	s.until(session.Output, "30 100")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), "not-in-arguments-98765") {
			t.Errorf("the environment is in %s: %q", file, line)
		}
	}
	s.typed("echo in \"$VALUE\"; trap 'echo got USR1' USR1; sleep 98765\n")
	s.until(session.Output, "in not-in-arguments-98765")
	time.Sleep(200 * time.Millisecond) // waits until sleep is in the foreground
	s.ask(session.Request{Op: session.OpSignal, Signal: "INT"})
	s.typed("echo \"code $?\"\n")
	s.until(session.Output, "code 130")
	s.typed("exit 7\n")
	if state := s.end(); state.Reason != session.Exited || state.ExitCode == nil || *state.ExitCode != 7 {
		t.Errorf("%+v", state)
	}
	if shells := p.must("workspace", "shell", "list", id, "--json"); strings.Contains(shells, "sh-") {
		t.Errorf("a shell still runs: %s", shells)
	}

	s = openTerminal(t, p, id, "kill -9 $$", nil)
	if state := s.end(); state.Reason != session.Signaled || *state.ExitCode != 137 || state.Signal != "SIGKILL" {
		t.Errorf("%+v", state)
	}

	s = openTerminal(t, p, id, "trap 'echo cleaned >cleaned' EXIT; echo ready; while :; do sleep 0.1; done", nil)
	s.until(session.Output, "ready")
	s.close()
	if got := p.shell(id, "cat cleaned"); got != "cleaned\n" {
		t.Errorf("the EXIT trap wrote %q", got)
	}

	s = openTerminal(t, p, id, "trap '' HUP; echo ready; sleep 98765; sleep 98765", nil)
	s.until(session.Output, "ready")
	s.close()
	p.awaitNoProcess(id, "98765")
}

// TestWorkspaceSessionIsPaused pauses a workspace that has a session. The session must continue
// after the pause, and input must resume the workspace.
func TestWorkspaceSessionIsPaused(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	s := openTerminal(t, p, id, "n=0; while read -r line; do n=$((n+1)); echo \"line $n: $line\"; done; exit 3", nil)
	for round := 1; round <= 2; round++ {
		s.typed(fmt.Sprintf("before %d\n", round))
		s.until(session.Output, fmt.Sprintf("line %d: before %d", 2*round-1, round))
		p.must("workspace", "pause", id)
		time.Sleep(time.Second) // the session looks for output meanwhile
		if state := p.must("workspace", "status", id, "--json"); !strings.Contains(state, `"paused"`) {
			t.Fatalf("it did not stay paused: %s", state)
		}
		if info, err := s.manager.Get(s.info.ID); err != nil || !info.Running() {
			t.Fatalf("%+v, %v", info, err)
		}
		if round == 2 {
			p.must("workspace", "resume", id)
		}
		s.typed(fmt.Sprintf("after %d\n", round))
		s.until(session.Output, fmt.Sprintf("line %d: after %d", 2*round, round))
	}
	s.typed("\x04")
	if state := s.end(); state.ExitCode == nil || *state.ExitCode != 3 {
		t.Errorf("%+v", state)
	}

	s = openTerminal(t, p, id, "echo ready; sleep 98765", nil)
	s.until(session.Output, "ready")
	p.must("workspace", "pause", id)
	s.close()
	p.awaitNoProcess(id, "98765")

	s = openTerminal(t, p, id, "echo ready; sleep 98765", nil)
	s.until(session.Output, "ready")
	p.must("workspace", "stop", id)
	if state := s.end(); state.Reason != session.Lost && state.Signal != "SIGKILL" { // if the session saw the end of the program, the signal must be SIGKILL
		t.Errorf("its workspace was stopped: %+v", state)
	}
}

// TestWorkspaceSessionWithSeparateStreams types into a program that has no terminal, before and
// after a pause.
func TestWorkspaceSessionWithSeparateStreams(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	script := `test -t 0 || test -t 1 || echo no terminal; echo err >&2; read -r line; echo "read $line"; exit 4`
	s := openTerminal(t, p, id, script, func(s *session.Spec) { s.Separate = true })
	s.until(session.Stderr, "err")
	s.typed("one ")
	p.must("workspace", "pause", id)
	s.typed("line\n")
	if state := s.end(); state.ExitCode == nil || *state.ExitCode != 4 {
		t.Errorf("%+v", state)
	}
	if out, errs := s.until(session.Stdout, "read"), s.until(session.Stderr, "err"); out != "no terminal\nread one line\n" || errs != "err\n" {
		t.Errorf("%q, %q", out, errs)
	}
}

// TestWorkspaceSessionWithoutBash runs a session in a workspace that has sh but no bash.
func TestWorkspaceSessionWithoutBash(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	p.shell(id, "mv /bin/bash /bin/bash.moved")
	s := openTerminal(t, p, id, `echo "this is $0"; read -r x; echo "got $x"; exit 5`, nil)
	s.until(session.Output, "this is /bin/sh")
	s.typed("input\n")
	s.until(session.Output, "got input")
	if state := s.end(); state.ExitCode == nil || *state.ExitCode != 5 {
		t.Errorf("%+v", state)
	}
}

// TestWorkspaceSessionIsLost kills the session process. The program in the workspace must end.
func TestWorkspaceSessionIsLost(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	s := openTerminal(t, p, id, "echo ready; sleep 98765", nil)
	s.until(session.Output, "ready")
	pid, err := flock.Holder(string(s.info.Folder) + "/keeper.lock")
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if state := s.end(); state.Reason != session.Lost {
		t.Errorf("%+v", state)
	}
	p.awaitNoProcess(id, "98765")
}
