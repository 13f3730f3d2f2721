package host

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/proctree"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// guest is the path of the program pyro-guest.
var guest string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pyro-host-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Chmod(dir, 0o755) // so that other users can run the program
	if guest, err = testenv.PublicProgram(dir, "pyro-guest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// started is a running agent process, with the test's end of the link.
type started struct {
	cmd    *exec.Cmd
	stream net.Conn
	stderr bytes.Buffer
	mark   string
}

// start starts an agent. When the test ends, start checks that no process of the agent still runs.
func start(t *testing.T, credential *syscall.Credential) *started {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer far.Close()
	defer near.Close()
	a := &started{cmd: exec.Command(guest, "host", "3", ""), mark: "PYRO_HOST_TEST=" + program.NewID()}
	a.cmd.ExtraFiles = []*os.File{far}
	a.cmd.Stderr = &a.stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: credential}
	if a.stream, err = net.FileConn(near); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.stream.Close()
		a.cmd.Wait()
		a.none(t)
		if said := a.stderr.String(); said != "" {
			t.Errorf("the agent printed %q", said)
		}
	})
	return a
}

func (a *started) dial(t *testing.T) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	c, err := client.Dial(ctx, a.stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Renew(ctx, client.NewIdentity("test")); err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *started) run(t *testing.T, c *client.Client, command program.Command) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	command.Env = append(command.Env, a.mark)
	var out bytes.Buffer
	exit, err := c.Exec(ctx, command, program.Attach{Stdout: &out, Stderr: &out})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%q: %+v, %v, %q", command.Argv, exit, err, out.String())
	}
	return out.String()
}

// marked returns the PIDs of the running processes that the agent has started.
func (a *started) marked() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && proctree.HasVariable(pid, a.mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *started) none(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "no process is left", func() bool { return len(a.marked()) == 0 })
}

// children returns the PIDs of the children of a process, and how many of them are zombies.
func children(pid int) (pids []int, zombies int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		b, _ := os.ReadFile(name)
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, child)
			if fields[0] == "Z" {
				zombies++
			}
		}
	}
	return pids, zombies
}

// hard is a script that starts processes that are hard to find. One is in another session, one has
// no parent, and one is a child of such a process.
const hard = "sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 & (setsid sh -c 'sleep 600 & exec sleep 600' >/dev/null 2>&1 &)"

func TestNothingOutlivesTheOwner(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	a.run(t, c, program.Command{Argv: []string{"sh", "-c", hard}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, program.Command{Argv: []string{"sh", "-c", hard + "; sleep 600"}, Env: []string{a.mark}}, program.Attach{})
		running <- err
	}()
	testenv.Eventually(t, "nine processes run", func() bool { return len(a.marked()) >= 9 })
	a.stream.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := a.marked(); len(left) > 0 { // checked immediately, without waiting
		t.Errorf("leftover processes: %v", left)
	}
	if err := <-running; err == nil {
		t.Error("the command that was killed ended well")
	}
}

func TestNothingOutlivesTheAgent(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	a.run(t, c, program.Command{Argv: []string{"sh", "-c", hard}})
	pids, _ := children(a.cmd.Process.Pid)
	for _, pid := range pids {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(b, []byte("host-agent")) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	ended := make(chan struct{})
	go func() { a.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the reaper waits on")
	}
	if left := a.marked(); len(left) > 0 {
		t.Errorf("leftover processes: %v", left)
	}
}

func TestZombiesAreReaped(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	for range 20 {
		a.run(t, c, program.Command{Argv: []string{"sh", "-c", "for i in 1 2 3 4 5; do (setsid true &); done"}})
	}
	pids, _ := children(a.cmd.Process.Pid)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, zombies := children(a.cmd.Process.Pid)
		for _, pid := range pids {
			_, more := children(pid)
			zombies += more
		}
		if zombies == 0 {
			return
		}
		if time.Since(began) > testenv.Patience {
			t.Fatalf("%d zombies", zombies)
		}
	}
}

// TestSignals checks that signals from a terminal or a service manager do not end the agent. It
// also checks that the agent's processes do not ignore them.
func TestSignals(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	pids, _ := children(a.cmd.Process.Pid)
	for _, pid := range append(pids, a.cmd.Process.Pid) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE} {
			syscall.Kill(pid, sig)
		}
	}
	// A process must ignore only signals that this test's own child processes also ignore.
	ignores := func(status string) (mask uint64) {
		if _, err := fmt.Sscanf(status, "SigIgn: %x", &mask); err != nil {
			t.Fatalf("%q: %v", status, err)
		}
		return mask
	}
	own, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := a.run(t, c, program.Command{Argv: []string{"grep", "SigIgn", "/proc/self/status"}}); ignores(got)&^ignores(string(own)) != 0 {
		t.Errorf("a process ignores %q, one of this test's own %q", got, own)
	}
}

// TestOrdinaryUser checks that an agent without root runs commands only as its own user, in that
// user's home.
func TestOrdinaryUser(t *testing.T) {
	testenv.NeedsRoot(t, "become an ordinary user")
	a := start(t, &syscall.Credential{Uid: 65534, Gid: 65534})
	c := a.dial(t)
	if got := a.run(t, c, program.Command{Argv: []string{"sh", "-c", "id -u; id -g; echo $HOME; pwd"}}); got != "65534\n65534\n/nonexistent\n/\n" {
		t.Errorf("got %q", got)
	}
	a.run(t, c, program.Command{Argv: []string{"true"}, User: "nobody"})
	exit, err := c.Exec(context.Background(), program.Command{Argv: []string{"id", "-u"}, User: "root"}, program.Attach{})
	if err != nil || exit.NotRun == "" || exit.Code != 126 || !strings.Contains(exit.NotRun, "not permitted") {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestNotAnAgent checks that the program fails immediately if it has no link.
func TestNotAnAgent(t *testing.T) {
	for _, arguments := range [][]string{{"host", "x"}, {"host-agent", "9"}, {"host"}, {}} {
		cmd := exec.Command(guest, arguments...)
		if out, err := cmd.CombinedOutput(); err == nil || len(out) == 0 {
			t.Errorf("%q: %v, %q", arguments, err, out)
		}
	}
}
