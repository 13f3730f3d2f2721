// Package machinetest is the conformance suite for the machine contract (internal/machine). Every
// driver passes it.
//
// The suite has no code for a particular driver. It checks every field of [machine.Features],
// including those that are false, and tests the interfaces of a machine. docs/add-a-driver.md
// describes each check.
package machinetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// patience is the maximum duration of each step. It only stops tests that hang. It is long because
// emulation on a busy host is slow.
var patience = testenv.Patience

// These are the shapes of test machines. The first is the default shape. The second differs from
// the default and from the host.
var (
	usual = shape{1, 1024}
	other = shape{2, 256}
)

type shape struct{ vcpus, memMiB int }

// Run checks a driver that works on this host. The parameter root is an environment with a shell
// and coreutils.
func Run(t *testing.T, d machine.Driver, root machine.Root) {
	before := goleak.IgnoreCurrent()
	s := suite{driver: d, root: root}
	if err := d.Prove(context.Background(), s.report(t)); err != nil {
		t.Fatal("the driver does not work on this host:", err)
	}
	t.Run("Cancel", s.cancel) // not in parallel, because it looks for child processes of this process
	t.Run("Ready", s.ready)
	t.Run("Interfaces", func(t *testing.T) { s.saves = s.interfaces(t) })
	t.Run("Machines", func(t *testing.T) {
		for _, c := range []struct {
			name  string
			check func(*testing.T)
		}{
			{"Life", s.life}, {"Killed", s.killed}, {"Terminal", s.terminal}, {"TypeAhead", s.typeAhead}, {"LastOutput", s.lastOutput}, {"RenewFirst", s.renewFirst}, {"Isolated", s.isolated}, {"Kernel", s.kernel},
			{"Files", s.files}, {"Trees", s.trees}, {"Timers", s.timers},
			{"Identity", s.identity}, {"Network", s.network}, {"Disk", s.disk}, {"Storage", s.storage}, {"TwoNames", s.twoNames}, {"Limits", s.limits}, {"Processor", s.processor}, {"OutOfMemory", s.outOfMemory},
			{"ForkBomb", s.forkBomb}, {"SetUID", s.setUID}, {"Containers", s.containers},
			{"Continues", s.continues}, {"Forks", s.forks}, {"Rounds", s.rounds}, {"SavedNetwork", s.savedNetwork}, {"SaveGivenUp", s.saveGivenUp}, {"SavedRefused", s.savedRefused}, {"SavedAsleep", s.asleep},
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
	saves  bool // the machines are machine.Savers
}

func (s suite) report(t *testing.T) progress.Func {
	return func(e progress.Event) { t.Log(e.Phase, e.Subject) }
}

// spec returns the spec for a new machine with its own folder.
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
	renewal  time.Duration // duration of Renew; the clock can be late by this time
}

// start starts a machine and connects to its agent. The machine and the connection are closed when
// the test ends.
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
		t.Fatalf("%v; the machine: %v", err, g.reason())
	}
	t.Cleanup(func() { g.agent.Close() })
	g.agent.Share(m.SharedBuffer())
	return g
}

// renewed starts a machine and renews its identity.
func (s suite) renewed(t *testing.T, sh shape) *guest {
	t.Helper()
	g := s.start(t, sh)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.identity = client.NewIdentity(g.spec.ID)
	began := time.Now()
	if err := g.agent.Renew(ctx, g.identity); err != nil {
		t.Fatal(err)
	}
	g.renewal = time.Since(began)
	return g
}

// exec runs a command. If limit is not 0, it is the maximum duration of the command.
func (g *guest) exec(limit time.Duration, argv ...string) (stdout string, end program.Exit, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	end, err = g.agent.Exec(ctx, program.Command{Argv: argv, Cwd: "/", Timeout: limit}, program.Attach{Stdout: &out})
	return out.String(), end, err
}

// shell runs a command line and returns its output. The test fails if the command fails.
func (g *guest) shell(t *testing.T, line string) string {
	t.Helper()
	out, end, err := g.exec(0, "/bin/sh", "-c", line)
	if err != nil || end.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", line, end, err, out)
	}
	return strings.TrimSpace(out)
}

// answers checks that the agent still works.
func (g *guest) answers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.agent.Status(ctx); err != nil {
		t.Fatal("the agent no longer answers:", err)
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

// ended waits until the machine has ended.
func (g *guest) ended(t *testing.T) {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(patience):
		t.Fatal("the machine has not ended")
	}
}

// reason returns why the machine ended. It waits up to a second, because the machine might end a
// moment after its link.
func (g *guest) reason() error {
	select {
	case <-g.Done():
	case <-time.After(time.Second):
	}
	return g.Err()
}

// leavesNothing checks that the machine's process does not exist any more and that the machine's
// folder is empty.
func leavesNothing(t *testing.T, pid int, dir string) {
	t.Helper()
	if pid != 0 && syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Errorf("process %d still exists", pid)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("leftovers in the machine's folder: %v, %v", left, err)
	}
}

// processes lists the host's processes whose command line contains a text.
func processes(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), text) {
			found = append(found, fmt.Sprintf("%s %q", filepath.Dir(file), b))
		}
	}
	return found
}
