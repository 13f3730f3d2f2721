package supervisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/host"
	"github.com/pyro-mcp/pyro/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config describes a machine without isolation. Its folders are temporary.
func config(t *testing.T) Config {
	t.Helper()
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	d := dirs.Dirs{Cache: t.TempDir(), State: t.TempDir()}
	return Config{Dirs: d, Driver: host.New(host.Config{Dirs: d, Guest: program}), VCPUs: 1, MemMiB: 128}
}

func start(t *testing.T, cfg Config) *Machine {
	t.Helper()
	m, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// folders returns the names of the entries in the folder of machines.
func folders(t *testing.T, cfg Config) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(cfg.Dirs.Machines())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestMachineFromStartToClose(t *testing.T) {
	cfg := config(t)
	m := start(t, cfg)
	if names := folders(t, cfg); len(names) != 1 || names[0] != m.ID {
		t.Errorf("folders: %q", names)
	}
	var steps []string
	for _, p := range m.Phases() {
		steps = append(steps, p.Name)
	}
	if got := strings.Join(steps, " "); !strings.HasSuffix(got, "reach renew") {
		t.Errorf("steps: %s", got)
	}
	var out bytes.Buffer
	for range 2 { // one machine runs many commands
		if end, err := m.Agent.Exec(context.Background(), program.Command{Argv: []string{"echo", "hello"}}, program.Attach{Stdout: &out, Stderr: &out}); err != nil || end.Code != 0 {
			t.Errorf("%+v, %v", end, err)
		}
	}
	if out.String() != "hello\nhello\n" || m.Err() != nil {
		t.Errorf("%q, %v", out.String(), m.Err())
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	<-m.Done()
	if m.Err() != nil || folders(t, cfg) != nil {
		t.Errorf("after Close: %v, %q", m.Err(), folders(t, cfg))
	}
}

func TestTimeToLive(t *testing.T) {
	cfg := config(t)
	cfg.TTL = 50 * time.Millisecond
	m := start(t, cfg)
	<-m.Done()
	if err := m.Err(); fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "time to live of 50ms is over") {
		t.Errorf("%v", err)
	}
	if err := m.Close(); err != nil || fault.KindOf(m.Err()) != fault.Timeout {
		t.Errorf("%v, %v", err, m.Err())
	}
	if left := folders(t, cfg); left != nil {
		t.Errorf("leftovers: %q", left)
	}
}

func TestMachineDies(t *testing.T) {
	m := start(t, config(t))
	if err := syscall.Kill(m.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.Done()
	if err := m.Err(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

// broken is a driver whose machines do not start or do not answer.
type broken struct {
	machine.Driver
	err error
}

func (b broken) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	if b.err != nil {
		return nil, b.err
	}
	m, err := b.Driver.Start(ctx, spec)
	if err == nil {
		err = syscall.Kill(m.PID(), syscall.SIGKILL)
	}
	return m, err
}

func TestFailedStartLeavesNothing(t *testing.T) {
	cfg := config(t)
	working := cfg.Driver
	refusal := fault.New(fault.Exhausted, "start", "", "no room")
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		driver machine.Driver
		kind   fault.Kind
	}{
		{"refused", context.Background(), broken{working, refusal}, fault.Exhausted},
		{"dies at once", context.Background(), broken{Driver: working}, fault.Unavailable},
		{"abandoned", canceled, working, fault.Canceled},
	} {
		cfg.Driver = c.driver
		if m, err := Start(c.ctx, cfg); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v, %v", c.name, m, err)
		}
		if left := folders(t, cfg); left != nil {
			t.Errorf("%s: leftovers: %q", c.name, left)
		}
	}
}

func TestSweepRemovesOnlyDead(t *testing.T) {
	cfg := config(t)
	if n, err := Sweep(cfg.Dirs); n != 0 || err != nil {
		t.Errorf("Sweep without a folder: got %d, %v", n, err)
	}
	m := start(t, cfg)
	machines := cfg.Dirs.Machines()
	long := time.Now().Add(-time.Hour)
	for _, dead := range []string{"m-dead", unlocked + "dead", unlocked + "young"} {
		if err := os.MkdirAll(filepath.Join(machines, dead, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(dead, "young") {
			if err := os.Chtimes(filepath.Join(machines, dead), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := Sweep(cfg.Dirs); n != 2 || err != nil {
		t.Errorf("%d were swept, %v", n, err)
	}
	if left := folders(t, cfg); len(left) != 2 || left[0] != unlocked+"young" || left[1] != m.ID {
		t.Errorf("left: %q", left)
	}
}
