//go:build machine

package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestInterruptAsksThenKills(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	r := p.start("run", environment, "--", "sh", "-c", `trap 'echo asked; exit 7' INT; echo ready; while :; do sleep 0.1; done`)
	r.says("ready")
	r.Process.Signal(syscall.SIGINT)
	if end := r.end(); end.stdout != "asked\n" || end.code != 7 {
		t.Errorf("asked once: %+v", end)
	}
	p.checkNoLeftovers()

	r = p.start("run", environment, "--", "sh", "-c", `trap 'echo asked' INT; echo ready; while :; do sleep 0.1; done`)
	r.says("ready")
	r.Process.Signal(syscall.SIGINT)
	r.says("asked")
	r.Process.Signal(syscall.SIGINT)
	if end := r.end(); end.code != 130 {
		t.Errorf("asked twice: %+v", end)
	}
	p.checkNoLeftovers()
}

// TestSignals stops pyro at random times by signals that let it clean up.
func TestSignals(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	moments := testenv.Rand(t, 1)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		after := 20*time.Millisecond + time.Duration(moments.Int64N(int64(700*time.Millisecond)))
		r, end := p.signalled(sig, after)
		// On a busy host, pyro might not handle signals yet. The Go runtime prints all stacks at
		// such an early SIGQUIT.
		early := func() bool { return end.code < 0 || strings.Contains(end.stderr, "SIGQUIT: quit\nPC=") }
		for ; early() && after < patience; after *= 2 {
			p.checkNoLeftovers()
			r, end = p.signalled(sig, after)
		}
		if end.code != 128+int(sig) {
			t.Errorf("%s after %s: %+v", sig, after, end)
		}
		for _, pid := range machines(r.Process.Pid) {
			t.Errorf("%s after %s: machine %d still runs", sig, after, pid)
		}
		p.checkNoLeftovers()
	}
}

// signalled starts a run and sends it a signal after a delay.
func (p *program) signalled(sig syscall.Signal, after time.Duration) (*running, result) {
	r := p.start("run", environment, "--", "sleep", "1000")
	time.Sleep(after)
	r.Process.Signal(sig)
	if sig == syscall.SIGINT {
		r.Process.Signal(sig)
	}
	return r, r.end()
}

// TestKilled kills pyro at random times of a run. The kernel must end pyro's machine, and the next
// command must clean up.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	moments := testenv.Rand(t, 3)
	for range 6 {
		p.kill(10*time.Millisecond+time.Duration(moments.Int64N(int64(700*time.Millisecond))), "run", environment, "--", "sleep", "1000")
	}
	if r := p.in("echo", "next"); r.stdout != "next\n" { // p.in also checks that nothing remains
		t.Errorf("%+v", r)
	}
}

// TestKilledWhileMaking kills pyro during the first use, while pyro tests accelerators and builds a
// template.
func TestKilledWhileMaking(t *testing.T) {
	p := newProgram(t).withCache()
	moments := testenv.Rand(t, 5)
	run := []string{"run", environment, "--mem-mib=256", "--", "echo", "made"}
	for _, up := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second} {
		p.kill(up/2+time.Duration(moments.Int64N(int64(up/2))), run...)
	}
	if r := p.run(nil, run...); r.code != 0 || r.stdout != "made\n" {
		t.Errorf("%+v", r)
	}
	for _, pattern := range []string{"templates/*.part", "accelerators/*.part", "templates/*/root-*"} {
		if left, _ := filepath.Glob(filepath.Join(p.cache, pattern)); left != nil {
			t.Errorf("leftovers: %q", left)
		}
	}
}

// kill starts pyro and kills it after a delay. It checks that the QEMU processes of pyro end. A
// folder of a machine that pyro was about to lock becomes old enough to be removed.
func (p *program) kill(after time.Duration, args ...string) {
	t := p.t
	t.Helper()
	r := p.start(args...)
	time.Sleep(after)
	// From here on, pyro starts no QEMU between the listing and the kill.
	testenv.StopProcess(t, r.Process.Pid)
	pids := machines(r.Process.Pid)
	r.Process.Kill()
	r.Wait()
	t.Logf("killed after %s, with QEMU %v", after, pids)
	for _, pid := range pids {
		if err := gone(pid); err != nil {
			t.Error(err)
		}
	}
	unlocked, _ := filepath.Glob(filepath.Join(p.state, "machines", ".new-*"))
	for _, folder := range unlocked {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(folder, old, old); err != nil {
			t.Error(err)
		}
	}
}
