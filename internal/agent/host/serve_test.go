package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// program is pyro-guest, built for these tests.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pyro-host-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Chmod(dir, 0o755) // others run it too
	program = filepath.Join(dir, "pyro-guest")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "github.com/pyro-mcp/pyro/cmd/pyro-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// started is an agent's process, as an owner has it.
type started struct {
	cmd    *exec.Cmd
	stream net.Conn
	stderr bytes.Buffer
	mark   string
}

// start starts an agent, and sees to it that it leaves nothing behind.
func start(t *testing.T, credential *syscall.Credential) *started {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer far.Close()
	defer near.Close()
	a := &started{cmd: exec.Command(program, "host", "3", ""), mark: "PYRO_HOST_TEST=" + client.NewID()}
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
			t.Errorf("the agent said %q", said)
		}
	})
	return a
}

func (a *started) dial(t *testing.T) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

func (a *started) run(t *testing.T, c *client.Client, command client.Command) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command.Env = append(command.Env, a.mark)
	var out bytes.Buffer
	exit, err := c.Exec(ctx, command, nil, &out, &out)
	if err != nil || exit.Code != 0 {
		t.Fatalf("%q: %+v, %v, %q", command.Argv, exit, err, out.String())
	}
	return out.String()
}

// marked gives the agent's processes' processes that run.
func (a *started) marked() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && marked(pid, a.mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *started) none(t *testing.T) {
	t.Helper()
	for began := time.Now(); len(a.marked()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("processes are left: %v", a.marked())
		}
	}
}

// children gives a process's children, zombies among them.
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

// hard is what is hard to find again: in its own session, without a parent, and a child of that.
const hard = "sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 & (setsid sh -c 'sleep 600 & exec sleep 600' >/dev/null 2>&1 &)"

func TestNothingOutlivesTheOwner(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	a.run(t, c, client.Command{Argv: []string{"sh", "-c", hard}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, client.Command{Argv: []string{"sh", "-c", hard + "; sleep 600"}, Env: []string{a.mark}}, nil, nil, nil)
		running <- err
	}()
	for began := time.Now(); len(a.marked()) < 9; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("only %v run", a.marked())
		}
	}
	a.stream.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := a.marked(); len(left) > 0 { // now, not a moment later
		t.Errorf("processes are left: %v", left)
	}
	if err := <-running; err == nil {
		t.Error("the command that was killed ended well")
	}
}

func TestNothingOutlivesTheAgent(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	a.run(t, c, client.Command{Argv: []string{"sh", "-c", hard}})
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
	case <-time.After(10 * time.Second):
		t.Fatal("the reaper waits on")
	}
	if left := a.marked(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestZombiesDoNotPileUp(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	for range 20 {
		a.run(t, c, client.Command{Argv: []string{"sh", "-c", "for i in 1 2 3 4 5; do (setsid true &); done"}})
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
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d zombies", zombies)
		}
	}
}

// TestSignals: the agent does not end with its terminal or its service, and does not make its processes deaf.
func TestSignals(t *testing.T) {
	a := start(t, nil)
	c := a.dial(t)
	pids, _ := children(a.cmd.Process.Pid)
	for _, pid := range append(pids, a.cmd.Process.Pid) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE} {
			syscall.Kill(pid, sig)
		}
	}
	// Whoever runs the tests may ignore signals of their own, which every process below inherits.
	own, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := a.run(t, c, client.Command{Argv: []string{"grep", "SigIgn", "/proc/self/status"}}); got != string(own) {
		t.Errorf("a process ignores %q, one of this test's own %q", got, own)
	}
}

// TestOrdinaryUser: who is not root runs as themselves, at home, and can't become another.
func TestOrdinaryUser(t *testing.T) {
	testenv.NeedsRoot(t, "become an ordinary user")
	a := start(t, &syscall.Credential{Uid: 65534, Gid: 65534})
	c := a.dial(t)
	if got := a.run(t, c, client.Command{Argv: []string{"sh", "-c", "id -u; id -g; echo $HOME; pwd"}}); got != "65534\n65534\n/nonexistent\n/\n" {
		t.Errorf("got %q", got)
	}
	a.run(t, c, client.Command{Argv: []string{"true"}, User: "nobody"})
	exit, err := c.Exec(context.Background(), client.Command{Argv: []string{"id", "-u"}, User: "root"}, nil, io.Discard, io.Discard)
	if err != nil || !exit.StartFailure || exit.Code != 126 || !strings.Contains(exit.Message, "not permitted") {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestNotAnAgent: what is no link ends it with an error, at once.
func TestNotAnAgent(t *testing.T) {
	for _, arguments := range [][]string{{"host", "x"}, {"host-agent", "9"}, {"host"}, {}} {
		cmd := exec.Command(program, arguments...)
		if out, err := cmd.CombinedOutput(); err == nil || len(out) == 0 {
			t.Errorf("%q: %v, %q", arguments, err, out)
		}
	}
}

func TestDescends(t *testing.T) {
	all := table{2: {parent: 1}, 3: {parent: 2}, 4: {parent: 3}, 7: {parent: 8}, 8: {parent: 7}, 9: {parent: 4}}
	for _, c := range []struct {
		pid, from int
		want      bool
	}{{4, 2, true}, {9, 2, true}, {3, 1, true}, {2, 3, false}, {2, 2, false}, {7, 2, false}, {5, 2, false}, {9, 8, false}} {
		if descends(all, c.pid, c.from) != c.want {
			t.Errorf("%+v", c)
		}
	}
	if d := all.depth(9); d != 4 {
		t.Errorf("depth %d", d)
	}
	if d := all.depth(7); d != deepest {
		t.Errorf("depth of a circle %d", d)
	}
}
