//go:build machine

package test

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestHostileCommands(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := newProgram(t)
	if r := p.in("sh", "-c", "kill -9 -1; kill -9 $$"); r.code != 137 {
		t.Errorf("kill -9 -1: %+v", r)
	}
	r := p.run(nil, "run", environment, "--timeout-seconds=4", "--", "sh", "-c", "b() { b | b & b; }; b")
	if r.code == 0 || r.code == 125 {
		t.Errorf("fork bomb: %+v", r)
	}
	if r := p.in("rm", "-rf", "--no-preserve-root", "/"); r.code == 125 {
		t.Errorf("rm: %+v", r)
	}
}

func TestGuestKernelPanic(t *testing.T) {
	t.Parallel()
	p := newProgram(t).emulated()
	r := p.in("sh", "-c", "echo c >/proc/sysrq-trigger")
	if r.code != 125 || !strings.Contains(r.stderr, "pyro: error: run machine: the guest's kernel panicked: Kernel panic - not syncing: sysrq triggered crash") {
		t.Errorf("%+v", r)
	}
}

func TestGuestReboots(t *testing.T) {
	t.Parallel()
	p := newProgram(t).emulated()
	if r := p.in("sh", "-c", "echo b >/proc/sysrq-trigger"); r.code != 125 || !strings.Contains(r.stderr, "pyro: error: run machine: the guest shut itself down") {
		t.Errorf("%+v", r)
	}
}

func TestMachineIsKilled(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*program{"QEMU": newProgram(t).emulated(), "gVisor's sentry": newProgram(t).sandboxed()} {
		p.isKilled(name)
	}
}

// isKilled starts a run, kills the process of its machine, and checks the result. The error message
// must contain name.
func (p *program) isKilled(name string) {
	t := p.t
	r := p.start("run", environment, "--", "sh", "-c", "echo ready; sleep 1000")
	r.says("ready")
	pids := machines(r.Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("machines: %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if end := r.end(); end.code != 125 || !strings.Contains(end.stderr, "pyro: error: run machine: "+name+" was killed by signal 9") {
		t.Errorf("%+v", end)
	}
	p.checkNoLeftovers()
}

// TestFullDisk writes more data in a guest than the host can store. If the machine is emulated, it
// must end. In a sandbox, the program must get an error.
func TestFullDisk(t *testing.T) {
	p := newProgram(t)
	if err := unix.Mount("pyro-test", p.state, "tmpfs", 0, "size=32m"); err != nil {
		testenv.Lacks(t, "only root can mount a small disk: ", err)
	}
	defer func() {
		if err := unix.Unmount(p.state, 0); err != nil {
			t.Error(err)
		}
	}()
	r := p.in("dd", "if=/dev/urandom", "of=/big", "bs=1M", "count=100", "conv=fsync")
	reported := r.code == 1 && strings.Contains(r.stderr, "No space left on device")
	if !reported && (r.code != 125 || !strings.Contains(r.stderr, "no space left on the host") || !strings.Contains(r.stderr, "pyro: hint: ")) {
		t.Errorf("%+v", r)
	}
	if r := p.in("echo", "again"); r.code != 0 || r.stdout != "again\n" {
		t.Errorf("afterwards: %+v", r)
	}
}
