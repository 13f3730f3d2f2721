package machinetest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// life checks a machine from its start to Close.
func (s suite) life(t *testing.T) {
	g := s.renewed(t, usual)
	if len(g.Phases()) == 0 {
		t.Error("Phases: got none")
	}
	for _, p := range g.Phases() {
		if p.Name == "" || p.Duration < 0 || p.Duration > patience {
			t.Errorf("phase %+v", p)
		}
	}
	select {
	case <-g.Done():
		t.Fatal("it has ended:", g.Err())
	default:
	}
	if err := g.Err(); err != nil {
		t.Error("a running machine has an error:", err)
	}
	if g.PID() != 0 && syscall.Kill(g.PID(), 0) != nil {
		t.Error("its process does not exist")
	}

	// Close must not wait for commands.
	nap := fmt.Sprintf("86400.%d", time.Now().UnixNano())
	napping := make(chan error, 1)
	go func() {
		_, err := g.agent.Exec(context.Background(), program.Command{ID: nap, Argv: []string{"sleep", nap}}, program.Attach{})
		napping <- err
	}()
	g.until(t, func() bool { // Signal fails until the command has started
		return fault.KindOf(g.agent.Signal(context.Background(), nap, syscall.SIGCONT)) == ""
	})
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	g.ended(t)
	if err := <-napping; err == nil {
		t.Error("a command outlived its machine")
	}
	if err := g.Err(); err != nil {
		t.Error("a machine that was closed has an error:", err)
	}
	if _, err := g.Link().Read(make([]byte, 1)); err == nil {
		t.Error("the link outlived its machine")
	}
	leavesNothing(t, g.PID(), g.spec.Dir)
	if left := processes(nap); left != nil {
		t.Error("leftovers:", left)
	}
}

// until waits until the function holds returns true.
func (g *guest) until(t *testing.T, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("timed out")
		}
	}
}

// killed checks how a machine reports that its process was killed.
func (s suite) killed(t *testing.T) {
	g := s.renewed(t, usual)
	if g.PID() == 0 {
		t.Skip("no process runs the machine")
	}
	nap := fmt.Sprintf("86400.%d", time.Now().UnixNano())
	napping := make(chan error, 1)
	go func() {
		_, _, err := g.exec(0, "sleep", nap)
		napping <- err
	}()
	if err := syscall.Kill(g.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.ended(t)
	err := g.Err()
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "kill") {
		t.Errorf("Err after the end: got %v", err)
	}
	if err := <-napping; err == nil {
		t.Error("a command outlived its machine")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if g.Err() == nil {
		t.Error("Close dropped the reason of the end")
	}
	leavesNothing(t, g.PID(), g.spec.Dir)
	g.until(t, func() bool { return processes(nap) == nil }) // the kernel kills the other processes a little later
}

// cancel checks that a cancelled start leaves no processes and files.
func (s suite) cancel(t *testing.T) {
	s.start(t, usual).Close() // now all files exist that the first start makes
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond} {
		ctx, cancel := context.WithCancel(context.Background())
		if after == 0 {
			cancel()
		}
		timer := time.AfterFunc(after, cancel)
		spec := s.spec(t, usual)
		m, err := s.driver.Start(ctx, spec)
		timer.Stop()
		cancel()
		switch {
		case err == nil && after == 0:
			t.Error("it started after its context was cancelled")
			m.Close()
		case err == nil: // Start returned before the cancel, which then must have no effect
			if m.Err() != nil {
				t.Errorf("ended by the context of its start: %v", m.Err())
			}
			m.Close()
		case fault.KindOf(err) != fault.Canceled:
			t.Errorf("cancelled after %s: %v", after, err)
		}
		leavesNothing(t, 0, spec.Dir)
		if left := children(); left != nil {
			t.Errorf("cancelled after %s: leftover processes: %v", after, left)
		}
	}
}

// children lists the child processes of this process.
func children() (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		after := string(b[strings.LastIndexByte(string(b), ')')+1:])
		if f := strings.Fields(after); len(f) > 1 && f[1] == fmt.Sprint(os.Getpid()) {
			pids = append(pids, filepath.Base(filepath.Dir(file))+" "+f[0])
		}
	}
	return pids
}

// renewFirst checks that the agent starts nothing and reads no files before Renew.
func (s suite) renewFirst(t *testing.T) {
	g := s.start(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := g.agent.Status(ctx); err != nil {
		t.Error("Status needs no renewal:", err)
	}
	if _, _, err := g.exec(0, "true"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("a machine that was not renewed ran a command: %v", err)
	}
	if _, err := g.agent.ReadFile(ctx, "/etc/hostname", 0, 0, io.Discard); fault.KindOf(err) != fault.Precondition {
		t.Errorf("read a file from a machine that was not renewed: %v", err)
	}
	if err := g.agent.Renew(ctx, client.NewIdentity(g.spec.ID)); err != nil {
		t.Fatal(err)
	}
	if _, end, err := g.exec(0, "true"); err != nil || end.Code != 0 {
		t.Errorf("after the renewal: %+v, %v", end, err)
	}
}
