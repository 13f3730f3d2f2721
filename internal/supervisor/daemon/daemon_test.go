package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// starterEnv has this program start a supervisor by the order in a file, and not let it go before it is told to.
const starterEnv = "PYRO_DAEMON_TEST_STARTER"

// TestMain has this program be the supervisors too, so that they are watched for races as the tests are.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == remote.Command:
		if err := Run(context.Background(), "test", os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case os.Getenv(starterEnv) != "":
		beStarter(os.Getenv(starterEnv))
		return
	}
	dir, err := os.MkdirTemp("", "pyro-daemon-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Chmod(dir, 0o755) // others run it too
	if os.Getenv(otherUserEnv) == "" {
		os.Setenv("PYRO_GUEST", filepath.Join(dir, "pyro-guest"))
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", os.Getenv("PYRO_GUEST"), "github.com/pyro-mcp/pyro/cmd/pyro-guest")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
			os.Exit(1)
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // what is started need not wait a second for others' races at its end
	os.Setenv("PYRO_QEMU", "no-such-qemu")
	os.Setenv("PYRO_RUNSC", "/nonexistent")
	goleak.VerifyTestMain(childless{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// childless waits, when all tests have run, until the supervisors that have let go of their locks have been reaped too.
type childless struct{ *testing.M }

func (c childless) Run() int {
	code := c.M.Run()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err == unix.ECHILD {
			break
		}
	}
	return code
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// home is a workspace without isolation, in folders of its own, as whoever starts its machine has it.
type home struct {
	order  remote.Order
	folder remote.Folder
	store  *store.Store
}

// furnish makes one, with disks and a record.
func furnish(t testing.TB, change func(*store.Workspace)) *home {
	t.Helper()
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	return furnishIn(t, d, change)
}

func furnishIn(t testing.TB, d dirs.Dirs, change func(*store.Workspace)) *home {
	t.Helper()
	w := store.Workspace{
		ID: "ws-" + client.NewID()[:12], Kind: store.KindWorkspace, CreatedAt: time.Now(), Starts: 1,
		Spec: store.Spec{Environment: "debian:12", Isolation: string(machine.None), VCPUCount: 1, MemMiB: 128},
	}
	if change != nil {
		change(&w)
	}
	h := &home{folder: remote.Folder(filepath.Join(d.Workspaces(), w.ID)), store: store.Open(d.State)}
	t.Cleanup(func() { h.store.Close() })
	check(t, os.MkdirAll(string(h.folder), 0o700))
	disks, err := remote.DisksOf(d, h.folder, false, store.Spec{}).Create(t.Context(), nil)
	check(t, err)
	w.Disks = disks
	check(t, h.store.AddWorkspace(t.Context(), w))
	h.order = remote.Order{Dirs: d, Folder: string(h.folder), Workspace: w}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(string(h.folder), "log")); err == nil && bytes.Contains(log, []byte("DATA RACE")) {
			t.Errorf("the supervisor said:\n%s", log)
		}
	})
	return h
}

// begin starts the supervisor, which waits to be let go.
func (h *home) begin(t testing.TB) *remote.Starting {
	t.Helper()
	s, err := remote.Start(t.Context(), os.Args[0], h.order, nil)
	check(t, err)
	return s
}

// live starts the supervisor, lets it go and connects to it. All of it ends with the test.
func (h *home) live(t testing.TB) *remote.Client {
	t.Helper()
	check(t, h.begin(t).Release())
	return h.dial(t)
}

func (h *home) dial(t testing.TB) *remote.Client {
	t.Helper()
	c, err := remote.Dial(t.Context(), h.folder)
	check(t, err)
	t.Cleanup(func() {
		if h.folder.Running() {
			if err := c.Stop(context.Background(), "the test is over", true); err != nil {
				t.Error("stop:", err)
			}
		}
		c.Close()
	})
	return c
}

// live gives a machine of its own to a test.
func live(t testing.TB) (*home, *remote.Client) {
	t.Helper()
	h := furnish(t, nil)
	return h, h.live(t)
}

// files is where the files of the workspace are on the host.
func (h *home) files() string {
	return filepath.Join(h.disks().Machine(h.order.Workspace.Disks).Tree.Folder, "files")
}

func (h *home) disks() storage.Folder { return h.order.Disks() }

// history gives the commands of the workspace.
func (h *home) history(t testing.TB) []store.Command {
	t.Helper()
	all, err := h.store.Commands(context.Background(), h.order.Workspace.ID)
	check(t, err)
	return all
}

// processes are those that have a text among their arguments, this one left out.
func processes(t testing.TB, text string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		check(t, err)
		if b, err := os.ReadFile(path); err == nil && pid != os.Getpid() && bytes.Contains(b, []byte(text)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what, "within 10 s: no")
		}
	}
}

// ended waits until nothing of the machine is there: neither supervisor nor agent, nor what it ran with a mark among its arguments.
func (h *home) ended(t testing.TB, marks ...string) {
	t.Helper()
	eventually(t, "its supervisor has ended", func() bool { return !h.folder.Running() })
	for _, mark := range append(marks, string(h.folder)) {
		eventually(t, "everything of "+mark+" has ended", func() bool { return processes(t, mark) == nil })
	}
}

// sh is a shell's command.
func sh(text string) client.Command { return client.Command{Argv: []string{"sh", "-c", text}} }

// run runs a command of a shell and gives its output.
func run(t testing.TB, c *remote.Client, text string) (remote.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.Exec(t.Context(), sh(text), nil, &out, &out)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return exit, out.String()
}

// mark gives a number of seconds that nothing else sleeps for.
func mark() string {
	return fmt.Sprintf("1000.%d%d", os.Getpid(), time.Now().UnixNano())
}

// sleeper runs a command that sleeps, and gives its end. It runs when sleeper returns.
func sleeper(t testing.TB, c *remote.Client, mark string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), client.Command{Argv: []string{"sleep", mark}}, nil, nil, nil)
		done <- err
	}()
	eventually(t, "the command runs", func() bool { return processes(t, mark) != nil })
	return done
}

func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process: %d", pid)
	}
	check(t, syscall.Kill(pid, sig))
}
