//go:build machine

package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// patience is the maximum duration of each step. It stops tests that hang.
var patience = testenv.Patience

// started is a running machine with a connection to its agent.
type started struct {
	machine.Machine
	agent *client.Client
}

func specOf(t *testing.T, root machine.Root) machine.Spec {
	t.Helper()
	return machine.Spec{ID: "test-" + client.NewIdentity("").MachineID[:16], Dir: t.TempDir(), Root: root, VCPUs: 1, MemMiB: 256}
}

// start starts a machine, renews its identity and thaws its processes.
func start(t *testing.T, d *Driver, spec machine.Spec) *started {
	t.Helper()
	s := startAsleep(t, d, spec)
	s.wake(t)
	return s
}

// wake thaws the machine's processes.
func (s *started) wake(t *testing.T) {
	t.Helper()
	if err := s.Machine.(machine.Thawer).Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// startAsleep starts a machine and renews its identity, but does not thaw its processes.
func startAsleep(t *testing.T, d *Driver, spec machine.Spec) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := d.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	c, err := client.Dial(ctx, m.Link())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Renew(ctx, client.NewIdentity(spec.ID)); err != nil {
		t.Fatal(err)
	}
	return &started{m, c}
}

func (s *started) shell(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	end, err := s.agent.Exec(ctx, program.Command{Argv: []string{"/bin/sh", "-c", line}}, program.Attach{Stdout: &out, Stderr: &out})
	if err != nil || end.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", line, end, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// TestReuseAfterCrash checks that a machine can start with the ID and the folder of a
// crashed machine.
func TestReuseAfterCrash(t *testing.T) {
	d, spec := driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t))
	for range 2 {
		s := start(t, d, spec)
		s.shell(t, "test ! -e /etc/mine && echo mine >/etc/mine")
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		stale := filepath.Join(spec.Dir, ".gvisor.filestore."+spec.ID)
		if err := os.WriteFile(stale, []byte("stale"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(spec.Dir); len(left) != 1 {
		t.Errorf("leftovers in the folder of the machines: %v", left)
	}
}

// TestMachineProcesses checks which processes pyro starts for a machine: one sentry, and one
// gofer if the machine has a volume.
func TestMachineProcesses(t *testing.T) {
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	plain := start(t, d, specOf(t, root))
	plain.shell(t, "true")
	if got := children(); len(got) != 1 || got[HelperName+" machine"] != 1 {
		t.Errorf("its processes: %v", got)
	}
	plain.Close()
	if got := children(); len(got) != 0 {
		t.Errorf("its processes after it was closed: %v", got)
	}
	folder := t.TempDir()
	s := startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: folder, Bytes: 1 << 30})
	s.shell(t, "true")
	if got := children(); len(got) != 2 || got[HelperName+" machine"] != 1 || got[HelperName+" gofer "+folder+" 1073741824 "+machine.TreeIncomplete+" "+xattr.Shared+" "+xattr.SeveralNames] != 1 {
		t.Errorf("its processes: %v", got)
	}
	s.Close()
	if got := children(); len(got) != 0 {
		t.Errorf("its processes after it was closed: %v", got)
	}
}

// children counts the child processes of this process by command line.
func children() map[string]int {
	programs := map[string]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		status, _ := os.ReadFile(file)
		b, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) && len(b) > 0 {
			programs[strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")]++
		}
	}
	return programs
}

func TestMissingHelper(t *testing.T) {
	t.Setenv("PYRO_RUNSC", filepath.Join(t.TempDir(), "missing"))
	err := driverIn(t, machinetest.SharedDirs(t)).Prove(t.Context(), nil)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "it does not exist") || !strings.Contains(fault.HintOf(err), "PYRO_RUNSC") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// TestIncompatibleHelper tests a helper with another protocol version, one without the machine
// command, and one that prints nothing. It also tests a program that is no helper.
func TestIncompatibleHelper(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"another protocol": {`read -r order <&3; echo '{"event":"failed","error":"it speaks 2","hint":"make build"}' >&3; exit 1`, "speaks 2"},
		"no machines":      {`echo 'runsc: unknown command' >&2; exit 128`, "unknown command"},
		"nothing":          {`exit 0`, "exited with code 0"},
		"garbage":          {`printf '\0\0\0\0' >&3; sleep 600`, "its protocol version differs"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), HelperName)
			if err := testenv.WriteProgram(path, []byte("#!/bin/sh\n"+c.script+"\n")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PYRO_RUNSC", path)
			dir := t.TempDir()
			began := time.Now()
			err := driverIn(t, dirs.Dirs{Cache: dir, State: dir}).Prove(t.Context(), nil)
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > testenv.Patience {
				t.Errorf("it took %v to find out", took)
			}
		})
	}
}

// TestWithoutCgroups checks that a machine starts without cgroups, and that Limits then says why
// there are no limits.
func TestWithoutCgroups(t *testing.T) {
	d := driverIn(t, machinetest.SharedDirs(t))
	d.groups = func() (*cgroup.Parent, error) { return nil, errors.New("there are none") }
	if d.Features().Limits {
		t.Error("Limits is true")
	}
	s := start(t, d, specOf(t, machinetest.Debian(t)))
	if err := s.Limits(); err == nil || err.Error() != "there are none" {
		t.Errorf("got %v", err)
	}
	s.shell(t, "true")
}
