package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// running is a pyro process that is running a command on the host.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	pipe   io.Closer
	stderr bytes.Buffer
	state  string
}

// hostEnv returns environment variables for a pyro that has its own folders and no QEMU. It also
// returns the state folder.
func hostEnv(t *testing.T) (env []string, state string) {
	dir := t.TempDir()
	state = filepath.Join(dir, "state")
	return append(os.Environ(), "PYRO_CACHE_DIR="+filepath.Join(dir, "cache"), "PYRO_STATE_DIR="+state,
		"PYRO_GUEST="+programs.guest, "PYRO_QEMU=no-such-qemu"), state
}

// runOnHost starts pyro run with a shell script and waits for the first line of output. The line
// must be "ready".
func runOnHost(t *testing.T, script string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(programs.pyro, "run", "-q", "--allow-host-compat", "debian:12", "--", "sh", "-c", script)}
	r.cmd.Env, r.state = hostEnv(t)
	r.cmd.Stderr = &r.stderr
	in, err := r.cmd.StdinPipe() // the pipe stays open while pyro runs
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdout, r.pipe = bufio.NewReader(out), out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(testenv.Patience, func() { r.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		in.Close()
		r.cmd.Process.Kill()
		r.cmd.Wait()
	})
	if line, err := r.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("first line %q, %v; stderr: %s", line, err, &r.stderr)
	}
	return r
}

func (r *running) signal(sig os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// end waits until pyro exits. It returns the remaining output and the exit code.
func (r *running) end() (string, int) {
	r.t.Helper()
	rest, _ := io.ReadAll(r.stdout)
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return string(rest), r.cmd.ProcessState.ExitCode()
}

// nothingLeft waits until no process has marker in its command line. Then it fails if a machine's
// folder still exists.
func (r *running) nothingLeft(marker string) {
	r.t.Helper()
	gone := time.Now().Add(testenv.Patience)
	for alive(marker) {
		if time.Now().After(gone) {
			r.t.Fatalf("a process with %q still runs", marker)
		}
		time.Sleep(20 * time.Millisecond)
	}
	left, err := os.ReadDir(filepath.Join(r.state, "machines"))
	if err != nil || len(left) > 0 {
		r.t.Errorf("leftovers of machines: %v, %v", left, err)
	}
}

func alive(marker string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), marker) {
			return true
		}
	}
	return false
}

func TestFirstInterruptAsks(t *testing.T) {
	r := runOnHost(t, `trap 'echo asked; exit 7' INT; echo ready; sleep 71.1 & wait`)
	r.signal(os.Interrupt)
	if said, code := r.end(); said != "asked\n" || code != 7 {
		t.Errorf("said %q, exit code %d; stderr: %s", said, code, &r.stderr)
	}
	r.nothingLeft("71.1")
}

func TestInterruptWithoutTrap(t *testing.T) {
	r := runOnHost(t, `echo ready; exec sleep 71.2`)
	r.signal(os.Interrupt)
	if _, code := r.end(); code != 130 {
		t.Errorf("exit code %d; stderr: %s", code, &r.stderr)
	}
	r.nothingLeft("71.2")
}

func TestSecondInterruptKills(t *testing.T) {
	r := runOnHost(t, `trap 'echo asked' INT; echo ready; sleep 71.3 & while :; do wait; done`)
	r.signal(os.Interrupt)
	if line, err := r.stdout.ReadString('\n'); line != "asked\n" || !alive("71.3") {
		t.Fatalf("the first interrupt must only ask the command: %q, %v", line, err)
	}
	r.signal(os.Interrupt)
	if _, code := r.end(); code != 130 {
		t.Errorf("exit code %d; stderr: %s", code, &r.stderr)
	}
	r.nothingLeft("71.3")
}

func TestSignalsThatEndPyro(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		t.Run(sig.String(), func(t *testing.T) {
			r := runOnHost(t, `trap '' TERM HUP QUIT; echo ready; (setsid sleep 71.4 &) ; sleep 71.4`)
			r.signal(sig)
			if _, code := r.end(); code != want {
				t.Errorf("exit code %d, want %d; stderr: %s", code, want, &r.stderr)
			}
			r.nothingLeft("71.4")
		})
	}
}

// TestKilledPyro kills pyro with SIGKILL. All processes of pyro must end, and the next command must
// remove the machine's folder.
func TestKilledPyro(t *testing.T) {
	r := runOnHost(t, `echo ready; sleep 71.5 & wait`)
	r.signal(syscall.SIGKILL)
	r.end()
	testenv.Eventually(t, "the command has ended", func() bool { return !alive("71.5") })
	next := exec.Command(programs.pyro, "run", "-q", "--allow-host-compat", "debian:12", "--", "true")
	next.Env = r.cmd.Env
	if out, err := next.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.nothingLeft("71.5")
}

func TestClosedStdoutEndsTheRun(t *testing.T) {
	r := runOnHost(t, `echo ready; sleep 71.6 & while :; do echo more; done`)
	r.pipe.Close()
	if err := r.cmd.Wait(); r.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGPIPE) {
		t.Errorf("%v; stderr: %s", err, &r.stderr)
	}
	if r.stderr.Len() > 0 {
		t.Errorf("said %q", r.stderr.String())
	}
	r.nothingLeft("71.6")
}

// TestOpenStdinDoesNotBlockExit checks that pyro exits although its standard input is still open.
// runOnHost does not close the input.
func TestOpenStdinDoesNotBlockExit(t *testing.T) {
	r := runOnHost(t, `echo ready`)
	if _, code := r.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
