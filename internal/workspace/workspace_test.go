package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/daemon"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestMain also runs the supervisors in this program, so that the race detector checks them too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == remote.Command {
		if err := daemon.Run(context.Background(), "test", os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, remove, err := testenv.Programs("pyro-guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("PYRO_GUEST", filepath.Join(dir, "pyro-guest"))
	os.Setenv("GORACE", testenv.RaceOptions())
	os.Setenv("PYRO_QEMU", "no-such-qemu")
	os.Setenv("PYRO_RUNSC", "/nonexistent")
	goleak.VerifyTestMain(childless{m}, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// childless waits after the last test until all ended supervisors have been reaped.
type childless struct{ *testing.M }

func (c childless) Run() int {
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

// newManager returns a manager with temporary folders. Its workspaces are deleted when the test
// ends.
func newManager(t testing.TB) *Manager {
	t.Helper()
	m := managerOf(t, dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()})
	t.Cleanup(func() {
		ctx := context.Background()
		for _, kind := range []store.Kind{store.KindWorkspace, store.KindVM} {
			all, err := m.Store.Workspaces(ctx, kind)
			if err != nil {
				t.Error(err)
			}
			for _, w := range all {
				if log, err := os.ReadFile(filepath.Join(string(m.folder(w.ID)), "log")); err == nil && bytes.Contains(log, []byte("DATA RACE")) {
					t.Errorf("a supervisor printed:\n%s", log)
				}
				if err := m.Delete(ctx, kind, w.ID); err != nil && fault.KindOf(err) != fault.NotFound {
					t.Error(err)
				}
			}
		}
	})
	return m
}

// managerOf returns another manager of the same folders, like that in another process.
func managerOf(t testing.TB, d dirs.Dirs) *Manager {
	t.Helper()
	m := &Manager{Dirs: d, Store: store.Open(d.State), Environments: environment.Open(d)}
	m.Drivers = sync.OnceValues(func() (*isolation.Drivers, error) { return isolation.New(d, m.Environments, "") })
	m.Program = func() (string, error) { return os.Args[0], nil }
	t.Cleanup(func() { m.Store.Close() })
	return m
}

// onHost returns the specification that these tests use for workspaces.
func onHost() Spec {
	return Spec{Kind: store.KindWorkspace, Environment: "debian:12", Isolation: machine.Auto, AllowHost: true, VCPUCount: 1, MemMiB: 128, Network: "off"}
}

// create creates a workspace. files alternates between paths and contents.
func create(t testing.TB, m *Manager, files ...string) Workspace {
	t.Helper()
	spec := onHost()
	if len(files) > 0 {
		spec.SeedPath = t.TempDir()
		for i := 0; i < len(files); i += 2 {
			path := filepath.Join(spec.SeedPath, files[i])
			check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files[i+1]), 0o644)))
		}
	}
	w, err := m.Create(t.Context(), spec)
	check(t, err)
	return w
}

// run runs a shell script and returns its output.
func run(t testing.TB, m *Manager, id, text string) string {
	t.Helper()
	var out bytes.Buffer
	exit, _, err := m.Exec(t.Context(), store.KindWorkspace, id, program.Command{Argv: []string{"sh", "-c", text}}, program.Attach{Stdout: &out, Stderr: &out}, nil)
	if err != nil || exit.Code != 0 {
		t.Errorf("%s: %+v, %v", text, exit, err)
	}
	return out.String()
}

func wantFile(t testing.TB, m *Manager, id, path, want string) {
	t.Helper()
	got, err := m.ReadFile(t.Context(), id, path, MaxRead)
	if want == "" && fault.KindOf(err) == fault.NotFound {
		return
	}
	if err != nil || string(got.Content) != want {
		t.Errorf("%s has %q, want %q: %v", path, got.Content, want, err)
	}
}

func wantState(t testing.TB, m *Manager, id string, want State, reason string) {
	t.Helper()
	w, err := m.Get(t.Context(), store.KindWorkspace, id)
	if err != nil || w.State != want || !strings.Contains(w.StateReason, reason) {
		t.Errorf("%s (%s), want %s (%s): %v", w.State, w.StateReason, want, reason, err)
	}
}

func wantKind(t testing.TB, what string, err error, want fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != want {
		t.Errorf("%s: %s, want %s: %v", what, fault.KindOf(err), want, err)
	}
}

// supervisor returns the PID of a workspace's supervisor.
func supervisor(t testing.TB, m *Manager, id string) int {
	t.Helper()
	c, err := remote.Dial(t.Context(), m.folder(id))
	check(t, err)
	defer c.Close()
	s, err := c.Status(t.Context())
	check(t, err)
	return s.PID
}
