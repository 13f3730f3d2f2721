package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// starterEnv is set to the path of a configuration if this program must run as runStarter.
const starterEnv = "PYRO_DAEMON_TEST_STARTER"

// TestMain also runs the supervisors in this program, so that the race detector checks them too.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == remote.Command:
		if err := Run(context.Background(), "test", os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case os.Getenv(serverEnv) != "":
		runServer(os.Getenv(serverEnv))
		return
	case os.Getenv(starterEnv) != "":
		runStarter(os.Getenv(starterEnv))
		return
	}
	dir, err := os.MkdirTemp("", "pyro-daemon-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Chmod(dir, 0o755) // other users run the program too
	if os.Getenv(otherUserEnv) == "" {
		guest, err := testenv.PublicProgram(dir, "pyro-guest")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Setenv("PYRO_GUEST", guest)
	}
	os.Setenv("GORACE", testenv.RaceOptions())
	os.Setenv("PYRO_QEMU", "no-such-qemu")
	os.Setenv("PYRO_RUNSC", "/nonexistent")
	goleak.VerifyTestMain(reapAfterTests{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// reapAfterTests waits after the last test until all ended supervisors have been reaped.
type reapAfterTests struct{ *testing.M }

func (c reapAfterTests) Run() int {
	code := c.M.Run()
	for deadline := time.Now().Add(testenv.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
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

// home is a workspace without isolation. Its folders are temporary.
type home struct {
	config remote.StartConfig
	folder remote.Folder
	store  *store.Store
}

// newHome creates a workspace with disks and a record in the database.
func newHome(t testing.TB, change func(*store.Workspace)) *home {
	t.Helper()
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	return newHomeIn(t, d, change)
}

func newHomeIn(t testing.TB, d dirs.Dirs, change func(*store.Workspace)) *home {
	t.Helper()
	w := store.Workspace{
		ID: "ws-" + program.NewID()[:12], Kind: store.KindWorkspace, CreatedAt: time.Now(), Starts: 1,
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
	h.config = remote.StartConfig{Dirs: d, Folder: string(h.folder), Workspace: w}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(string(h.folder), "log")); err == nil && bytes.Contains(log, []byte("DATA RACE")) {
			t.Errorf("the supervisor printed:\n%s", log)
		}
	})
	return h
}

// begin starts the supervisor, but does not acknowledge the start.
func (h *home) begin(t testing.TB) *remote.Starting {
	t.Helper()
	s, err := remote.Start(t.Context(), os.Args[0], h.config, nil)
	check(t, err)
	return s
}

// live starts the supervisor, acknowledges the start, and connects. The supervisor is stopped when
// the test ends.
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

// live creates a workspace and starts its machine.
func live(t testing.TB) (*home, *remote.Client) {
	t.Helper()
	h := newHome(t, nil)
	return h, h.live(t)
}

// files returns the host folder that contains the workspace's files.
func (h *home) files() string {
	return filepath.Join(h.disks().Machine(h.config.Workspace.Disks).Tree.Folder, "files")
}

func (h *home) disks() storage.Folder { return h.config.Disks() }

// history returns the workspace's history of commands.
func (h *home) history(t testing.TB) []store.Command {
	t.Helper()
	all, err := h.store.Commands(context.Background(), h.config.Workspace.ID)
	check(t, err)
	return all
}

// processes returns the PIDs of processes that have a text in their arguments. It excludes this
// process.
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

// ended waits until the supervisor, the agent and all processes with one of the marks have ended.
func (h *home) ended(t testing.TB, marks ...string) {
	t.Helper()
	testenv.Eventually(t, "its supervisor has ended", func() bool { return !h.folder.Running() })
	for _, mark := range append(marks, string(h.folder)) {
		testenv.Eventually(t, "everything of "+mark+" has ended", func() bool { return processes(t, mark) == nil })
	}
}

// sh returns a command that runs a shell script.
func sh(text string) program.Command { return program.Command{Argv: []string{"sh", "-c", text}} }

// run runs a shell script and returns its output.
func run(t testing.TB, c *remote.Client, text string) (remote.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.Exec(t.Context(), sh(text), program.Attach{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return exit, out.String()
}

// mark returns a unique sleep time in seconds, which identifies the processes of a test.
func mark() string {
	return fmt.Sprintf("1000.%d%d", os.Getpid(), time.Now().UnixNano())
}

// sleeper runs a command that sleeps. It returns when the command runs. The channel receives the
// result of the command.
func sleeper(t testing.TB, c *remote.Client, mark string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), program.Command{Argv: []string{"sleep", mark}}, program.Attach{})
		done <- err
	}()
	testenv.Eventually(t, "the command runs", func() bool { return processes(t, mark) != nil })
	return done
}

func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process: %d", pid)
	}
	check(t, syscall.Kill(pid, sig))
}
