package sdktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func commands(t *testing.T, ws *pyro.Workspace) {
	t.Run("streams", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		cmd := ws.Command("sh", "-c", `cat; echo "$GREETING in $PWD" >&2`)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input\n"), &stdout, &stderr
		cmd.Env, cmd.Dir = []string{"GREETING=bye", "GREETING=hello"}, "/tmp"
		check(t, cmd.Run())
		if stdout.String() != "input\n" || stderr.String() != "hello in /tmp\n" {
			t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
		}
		if s := cmd.ProcessState; !s.Success() || s.ExitCode() != 0 || s.Pid() == 0 || s.Pid() != cmd.Process.Pid || s.String() != "exit status 0" {
			t.Errorf("state %v, pid %d", s, s.Pid())
		}
	})
	t.Run("Dir is relative to /workspace", func(t *testing.T) {
		check(t, ws.FS().MkdirAll("some/dir", 0o755))
		cmd := ws.Command("pwd")
		cmd.Dir = "some/dir"
		if out, err := cmd.Output(); !strings.HasSuffix(string(out), "/some/dir\n") || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("Output", func(t *testing.T) {
		out, err := ws.Command("sh", "-c", "echo out; echo err >&2; exit 3").Output()
		var exit *pyro.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(exit.Stderr) != "err\n" || err.Error() != "exit status 3" {
			t.Errorf("%v", err)
		}
		if string(out) != "out\n" {
			t.Errorf("%q", out)
		}
		if out, err = ws.Command("sh", "-c", "echo out; echo err >&2").CombinedOutput(); len(out) != 8 || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		_, err = ws.Command("sh", "-c", "yes | head -c 100000 >&2; echo end >&2; false").Output()
		if !errors.As(err, &exit) || len(exit.Stderr) > 66<<10 || !strings.HasSuffix(string(exit.Stderr), "\nend\n") {
			t.Errorf("%v", err)
		}
	})
	t.Run("Output is bounded", func(t *testing.T) {
		out, err := ws.Command("head", "-c", "20000000", "/dev/zero").Output()
		if !errors.Is(err, pyro.ErrExhausted) || len(out) > pyro.MaxOutput {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
	t.Run("a program that does not exist", func(t *testing.T) {
		cmd := ws.Command("no-such-program")
		if err := cmd.Start(); !errors.Is(err, pyro.ErrNotFound) || cmd.Process != nil {
			t.Errorf("%v", err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("Wait after a failed Start succeeds")
		}
		if err := ws.Command("/etc/passwd").Run(); !errors.Is(err, pyro.ErrPrecondition) {
			t.Errorf("not executable: %v", err)
		}
	})
	t.Run("signals", func(t *testing.T) {
		cmd := ws.Command("sh", "-c", `trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done`)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		io.ReadFull(out, make([]byte, len("ready\n")))
		check(t, cmd.Process.Signal(syscall.SIGUSR1))
		var exit *pyro.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%v", err)
		}
		if err := cmd.Process.Signal(syscall.SIGUSR1); err != os.ErrProcessDone {
			t.Errorf("after the end: %v", err)
		}
		cmd = ws.Command("sleep", "1000")
		check(t, cmd.Start())
		check(t, cmd.Process.Kill())
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Signal() != syscall.SIGKILL || exit.ExitCode() != 137 {
			t.Errorf("killed: %v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := ws.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo $!; wait")
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		pid := make([]byte, 16)
		n, err := out.Read(pid)
		check(t, err)
		cancel()
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) || !errors.Is(err, pyro.ErrCanceled) {
			t.Errorf("%v", err)
		}
		testenv.Eventually(t, "its child has ended", func() bool { return ws.Command("kill", "-0", strings.TrimSpace(string(pid[:n]))).Run() != nil })
		if err := ws.CommandContext(ctx, "true").Run(); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
	})
	t.Run("pipes", func(t *testing.T) {
		cmd := ws.Command("sh", "-c", "tr a-z A-Z; echo end >&2")
		in, err := cmd.StdinPipe()
		check(t, err)
		out, err := cmd.StdoutPipe()
		check(t, err)
		errs, err := cmd.StderrPipe()
		check(t, err)
		check(t, cmd.Start())
		go func() {
			io.WriteString(in, "hello")
			in.Close()
		}()
		text, err := io.ReadAll(out)
		if string(text) != "HELLO" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if text, err = io.ReadAll(errs); string(text) != "end\n" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		check(t, cmd.Wait())

		cmd = ws.Command("sh", "-c", "yes | head -c 60000") // no process reads the output
		_, err = cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		check(t, cmd.Wait())
	})
	t.Run("misuse", func(t *testing.T) {
		cmd := ws.Command("true")
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "not started") {
			t.Errorf("Wait before Start: %v", err)
		}
		check(t, cmd.Start())
		if err := cmd.Start(); err == nil || !strings.Contains(err.Error(), "already started") {
			t.Errorf("two Starts: %v", err)
		}
		if _, err := cmd.StdoutPipe(); err == nil {
			t.Error("StdoutPipe after Start succeeds")
		}
		check(t, cmd.Wait())
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "Wait was already called") {
			t.Errorf("two Waits: %v", err)
		}
		cmd = ws.Command("true")
		cmd.Stdout = io.Discard
		if _, err := cmd.Output(); err == nil {
			t.Error("Output with Stdout succeeds")
		}
		cmd = ws.Command("true")
		cmd.Env = []string{"NAME"}
		if err := cmd.Run(); !errors.Is(err, pyro.ErrInvalid) {
			t.Errorf("Env: %v", err)
		}
		if err := ws.Command("").Run(); !errors.Is(err, pyro.ErrInvalid) {
			t.Errorf("no program: %v", err)
		}
		if err := (&pyro.Workspace{WorkspaceID: ws.WorkspaceID}).Command("true").Run(); !errors.Is(err, pyro.ErrInvalid) {
			t.Errorf("a workspace without pyro: %v", err)
		}
	})
	t.Run("a terminal", func(t *testing.T) {
		cmd := ws.Command("sh", "-c", "stty size; tty >/dev/null && echo terminal")
		cmd.TTY = &pyro.TTY{Size: pyro.WindowSize{Cols: 100, Rows: 40}}
		if out, err := cmd.Output(); string(out) != "40 100\r\nterminal\r\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	})
}
