// Package machinetest is the conformance suite of the machine contract (internal/machine). Every driver passes it. It knows no driver by name: it asks for
// [machine.Features], and checks that they are true, those that are said to be missing too.
package machinetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// patience bounds every single step. It only ends what hangs: emulation on a busy host is slow.
const patience = 3 * time.Minute

// The shapes of the machines: the default one, and one that is told from the host and from the other.
var (
	usual = shape{1, 1024}
	other = shape{2, 256}
)

type shape struct{ vcpus, memMiB int }

// Run checks a driver, which must be able to start machines on this host, with machines on a root: an environment with a shell and coreutils.
func Run(t *testing.T, d machine.Driver, root machine.Root) {
	before := goleak.IgnoreCurrent()
	s := suite{d, root}
	if err := d.Prove(context.Background(), s.report(t)); err != nil {
		t.Fatal("it is to be proved on this host:", err)
	}
	t.Run("Cancel", s.cancel) // alone: it looks for children of this process
	t.Run("Ready", s.ready)
	t.Run("Machines", func(t *testing.T) {
		for _, c := range []struct {
			name  string
			check func(*testing.T)
		}{
			{"Life", s.life}, {"Killed", s.killed}, {"RenewFirst", s.renewFirst}, {"Isolated", s.isolated}, {"Kernel", s.kernel},
			{"Files", s.files}, {"Timers", s.timers},
			{"Identity", s.identity}, {"Network", s.network}, {"Disk", s.disk}, {"Limits", s.limits}, {"Processor", s.processor}, {"OutOfMemory", s.outOfMemory},
			{"ForkBomb", s.forkBomb}, {"SetUID", s.setUID}, {"Containers", s.containers},
			{"GoesOn", s.goesOn}, {"Forks", s.forks}, {"Rounds", s.rounds}, {"SavedNetwork", s.savedNetwork}, {"SaveGivenUp", s.saveGivenUp}, {"SavedRefused", s.savedRefused}, {"SavedAsleep", s.asleep},
			{"KillEverything", s.killEverything}, {"DeleteEverything", s.deleteEverything},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.check(t)
			})
		}
	})
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("testing.tRunner")); err != nil {
		t.Error(err)
	}
}

type suite struct {
	driver machine.Driver
	root   machine.Root
}

func (s suite) report(t *testing.T) progress.Func {
	return func(e progress.Event) { t.Log(e.Phase, e.Subject) }
}

// spec is that of a new machine, with a folder of its own.
func (s suite) spec(t *testing.T, sh shape) machine.Spec {
	id := client.NewIdentity("").MachineID[:16]
	return machine.Spec{ID: "test-" + id, Dir: t.TempDir(), Root: s.root, VCPUs: sh.vcpus, MemMiB: sh.memMiB, Progress: s.report(t)}
}

// guest is a started machine.
type guest struct {
	machine.Machine
	spec     machine.Spec
	agent    *client.Client
	identity client.Identity
}

// start starts a machine and dials its agent. It is closed when the test ends.
func (s suite) start(t *testing.T, sh shape) *guest {
	t.Helper()
	return s.startAs(t, s.spec(t, sh))
}

func (s suite) startAs(t *testing.T, spec machine.Spec) *guest {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g := &guest{spec: spec}
	m, err := s.driver.Start(ctx, g.spec)
	if err != nil {
		t.Fatal(err)
	}
	g.Machine = m
	t.Cleanup(func() { m.Close() })
	if g.agent, err = client.Dial(ctx, m.Link()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.agent.Close() })
	g.agent.Share(m.Window())
	return g
}

// renewed starts a machine and renews it.
func (s suite) renewed(t *testing.T, sh shape) *guest {
	t.Helper()
	g := s.start(t, sh)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.identity = client.NewIdentity(g.spec.ID)
	if err := g.agent.Renew(ctx, g.identity); err != nil {
		t.Fatal(err)
	}
	return g
}

// exec runs a command, for at most limit where that is not 0.
func (g *guest) exec(limit time.Duration, argv ...string) (stdout string, end client.Exit, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	end, err = g.agent.Exec(ctx, client.Command{Argv: argv, Cwd: "/", Timeout: limit}, nil, &out, io.Discard)
	return out.String(), end, err
}

// shell gives what a command line prints, which has to succeed.
func (g *guest) shell(t *testing.T, line string) string {
	t.Helper()
	out, end, err := g.exec(0, "/bin/sh", "-c", line)
	if err != nil || end.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", line, end, err, out)
	}
	return strings.TrimSpace(out)
}

// answers checks that the agent still does what it is there for.
func (g *guest) answers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.agent.Status(ctx); err != nil {
		t.Fatal("the agent does not answer any more:", err)
	}
	text := "still here"
	spec := client.FileSpec{Path: "/proof/of/life", MakeParents: true, Size: int64(len(text))}
	if err := g.agent.WriteFile(ctx, spec, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	var back bytes.Buffer
	if _, err := g.agent.ReadFile(ctx, spec.Path, 0, 0, &back); err != nil || back.String() != text {
		t.Fatalf("read %q, %v", back.String(), err)
	}
}

// ended waits for the end of the machine.
func (g *guest) ended(t *testing.T) {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(patience):
		t.Fatal("the machine has not ended")
	}
}

// reason is why the machine ended, where it has: a moment after its link broke.
func (g *guest) reason() error {
	select {
	case <-g.Done():
	case <-time.After(time.Second):
	}
	return g.Err()
}

// leavesNothing checks that a machine is gone: its process and all that was in its folder.
func leavesNothing(t *testing.T, pid int, dir string) {
	t.Helper()
	if pid != 0 && syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Errorf("process %d is still there", pid)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the machine's folder: %v, %v", left, err)
	}
}

// processes are those of this host whose command line holds a text.
func processes(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), text) {
			found = append(found, fmt.Sprintf("%s %q", filepath.Dir(file), b))
		}
	}
	return found
}
