package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/pty"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// screen is a terminal on which pyro is running.
type screen struct {
	t      *testing.T
	keys   *os.File // a write to this file types keys
	tty    *os.File
	cmd    *exec.Cmd
	before unix.Termios // state before pyro started

	mu    sync.Mutex
	shown strings.Builder
}

func runOnTerminal(t *testing.T, script string) *screen {
	t.Helper()
	env, _ := hostEnv(t)
	return onTerminal(t, env, "run", "-q", "-t", "--allow-host-compat", "--timeout-seconds", fmt.Sprint(int(testenv.Patience.Seconds())), "debian:12", "--", "sh", "-c", script)
}

func onTerminal(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, keys: keys, tty: tty}
	s.resize(100, 30)
	s.cmd = exec.Command(programs.pyro, args...)
	s.cmd.Env = env
	s.before = s.modes()
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(s, keys)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		tty.Close()
		keys.Close()
		<-read
	})
	return s
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(b)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// await waits until the screen shows the given text.
func (s *screen) await(what string) {
	s.t.Helper()
	for until := time.Now().Add(testenv.Patience); !strings.Contains(s.text(), what); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("no %q on the screen: %q", what, s.text())
		}
	}
}

func (s *screen) typed(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) resize(cols, rows int) {
	s.t.Helper()
	if err := pty.SetSize(s.keys, cols, rows); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) modes() unix.Termios {
	s.t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *modes
}

func TestTerminal(t *testing.T) {
	s := runOnTerminal(t, `stty size; printf 'name: '; read name; echo "hello $name"
		until [ "$(stty size)" = '40 120' ]; do sleep 0.02; done; echo resized; read again; tty >/dev/null && echo a terminal; exit 5`)
	s.await("30 100")
	s.await("name: ")
	s.typed("ada\r")
	s.await("hello ada")
	if s.modes().Lflag&unix.ICANON != 0 {
		t.Error("keys do not go to the command as they are")
	}
	s.resize(120, 40)
	s.await("resized")
	s.typed("\r")
	s.await("a terminal")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal settings changed: got %+v, want %+v", after, s.before)
	}
}

// TestTerminalShowsOnlyTheOutput checks that a quiet pyro prints no newline after the output, and
// that its notes begin on a new line.
func TestTerminalShowsOnlyTheOutput(t *testing.T) {
	for script, want := range map[string]string{"printf x": "x", "echo x": "x\r\n", "true": ""} {
		s := runOnTerminal(t, script+"; exec sleep 0")
		s.cmd.Wait()
		s.settle(want)
	}
	env, _ := hostEnv(t)
	for script, want := range map[string]string{"printf x": "x\r\n[run] ", "echo x": "x\r\n[run] "} {
		s := onTerminal(t, env, "run", "-t", "--allow-host-compat", "debian:12", "--", "sh", "-c", script)
		s.await("[run] ")
		if text := s.text(); !strings.Contains(text, "\n"+want) {
			t.Errorf("%s: %q", script, text)
		}
		s.cmd.Wait()
	}
}

// settle waits until pyro has ended and all output is read, and compares the screen.
func (s *screen) settle(want string) {
	s.t.Helper()
	s.tty.WriteString("end")
	s.await("end")
	if text := s.text(); text != want+"end" {
		s.t.Errorf("%q, not %q", text, want)
	}
}

func TestInterruptIsKeyOnTerminal(t *testing.T) {
	s := runOnTerminal(t, `trap 'echo interrupted; exit 9' INT; echo ready; sleep 72.1 & wait`)
	s.await("ready")
	s.typed("\x03")
	s.await("interrupted")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
}

func TestTerminalIsRestored(t *testing.T) {
	s := runOnTerminal(t, `echo ready; exec sleep 72.2`)
	s.await("ready")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal settings changed: got %+v, want %+v", after, s.before)
	}
}

func TestAttach(t *testing.T) {
	env, _ := hostEnv(t)
	pyro := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(programs.pyro, append([]string{"workspace"}, args...)...)
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	id := pyro("create", "debian:12", "--allow-host-compat", "--id-only")
	defer pyro("delete", id)
	shell := pyro("shell", "open", id, "--id-only", "--env", "PS1=> ", "--env", "HOME="+t.TempDir())
	pyro("shell", "write", id, shell, "--input", "echo before $((1+1))")
	s := onTerminal(t, env, "workspace", "shell", "attach", id, shell, "--detach-key", "ctrl-x")
	s.await("ctrl-x detaches")
	s.await("before 2")
	s.typed("stty size; echo typed $((1+2))\r")
	s.await("30 100")
	s.await("typed 3")
	pyro("shell", "write", id, shell, "--input", "echo meanwhile $((2+2))")
	s.await("meanwhile 4")
	s.typed("\x18")
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %q", code, s.text())
	}
	s.await("[workspace-shell-attach]")
	if after := s.modes(); after != s.before {
		t.Errorf("the terminal settings changed: got %+v, want %+v", after, s.before)
	}
	if list := pyro("shell", "list", id); !strings.Contains(list, "running  100 x 30") {
		t.Errorf("afterwards: %s", list)
	}
}
