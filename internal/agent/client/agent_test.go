package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/host"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestMain runs the tests. The tests also start this program as an agent. In that case, TestMain
// runs the agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[2] == "3" {
		var err error
		switch os.Args[1] {
		case "host":
			err = host.Reap(3, []string{"host-agent", "3", os.Args[3]})
		case "host-agent":
			err = host.Serve(3, os.Args[3], "test")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// mark is an environment variable that every command of these tests has. It identifies their
// processes.
var mark = func() string {
	var b [8]byte
	rand.Read(b[:])
	return "PYRO_CLIENT_TEST=" + hex.EncodeToString(b[:])
}()

// marked returns the PIDs of the processes whose environment has a variable. Zombies are not
// included.
func marked(variable string) (pids []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		b, _ := os.ReadFile(name) // empty for a zombie
		for v := range bytes.SplitSeq(b, []byte{0}) {
			if string(v) == variable {
				pids = append(pids, filepath.Base(filepath.Dir(name)))
			}
		}
	}
	return pids
}

// gone waits until no process has the variable in its environment.
func gone(t testing.TB, variable string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left := marked(variable)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > testenv.Patience {
			t.Fatalf("leftover processes: %v", left)
		}
	}
}

// pair returns both ends of a stream. Both are non-blocking.
func pair(t testing.TB) (near, far *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
}

func connOf(t testing.TB, f *os.File) net.Conn {
	t.Helper()
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// startAgent starts an agent on the host and returns a stream to the agent. When the test ends, it
// checks that no process still runs.
func startAgent(t testing.TB) net.Conn { return startAgentWith(t, "") }

// startAgentWith is like startAgent, with a folder for the volume.
func startAgentWith(t testing.TB, volume string) net.Conn {
	t.Helper()
	near, far := pair(t)
	cmd := osexec.Command(os.Args[0], "host", "3", volume)
	cmd.ExtraFiles = []*os.File{far}
	cmd.Env = append(os.Environ(), "GORACE="+testenv.RaceOptions())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	stream := connOf(t, near)
	t.Cleanup(func() {
		stream.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the agent: %v", err)
		}
		gone(t, mark)
	})
	return stream
}

func within(t testing.TB) context.Context {
	t.Helper()
	return expiring(t, testenv.Patience)
}

// expiring returns a context for a call that must end when the context expires.
func expiring(t testing.TB, after time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), after)
	t.Cleanup(cancel)
	return ctx
}

// dial connects a client to an agent and renews the session.
func dial(t testing.TB, stream net.Conn) *Client {
	t.Helper()
	ctx := within(t)
	c, err := Dial(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Renew(ctx, NewIdentity("test")); err != nil {
		t.Fatal(err)
	}
	return c
}

// result is the exit and output of a command.
type result struct {
	program.Exit
	out, errs string
}

func sh(script string) program.Command { return program.Command{Argv: []string{"sh", "-c", script}} }

// run runs a command, which must start and end within 30 s.
func run(t testing.TB, c *Client, command program.Command, in io.Reader) result {
	t.Helper()
	var out, errs bytes.Buffer
	command.Env = append(command.Env, mark)
	exit, err := c.Exec(within(t), command, program.Attach{Stdin: in, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("%q: %v", command.Argv, err)
	}
	return result{exit, out.String(), errs.String()}
}

// memory returns a folder on tmpfs, where flushes are fast. If there is no tmpfs, it returns a
// folder on disk.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pyro-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
