package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// execEnv is an ExecEnv that simulates freezing and stopping processes.
type execEnv struct {
	files
	mu     sync.Mutex
	frozen bool
	held   bool
	said   []string
}

func (p *execEnv) say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, what)
}

func (p *execEnv) Freeze(root, volume bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		return false, errors.New("frozen already")
	}
	p.frozen = true
	p.said = append(p.said, "freeze")
	return true, nil
}

func (p *execEnv) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	p.said = append(p.said, "thaw")
	return nil
}

func (p *execEnv) Hold() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	return nil
}

func (p *execEnv) Release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	return nil
}

func (p *execEnv) isHeld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *execEnv) Quiesce(context.Context) error {
	p.say("quiesce")
	return nil
}

func (p *execEnv) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen
}

func frozenEnv(t *testing.T) (*Client, *execEnv) {
	t.Helper()
	root, err := os.Open(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := volume.Open(root, volume.LocalFS)
	if err != nil {
		t.Fatal(err)
	}
	p := &execEnv{files: files{volume: v}}
	c, _ := startWithBufferIn(t, false, p)
	t.Cleanup(func() { v.Close(within(t)) })
	return c, p
}

// TestFrozenUntilThawed freezes and thaws repeatedly. It also calls Freeze while the file systems
// are frozen, which starts a new freeze.
func TestFrozenUntilThawed(t *testing.T) {
	c, p := frozenEnv(t)
	ctx := within(t)
	both := Mounts{Root: true, Volume: true}
	for range 2 {
		if frozen, err := c.Freeze(ctx, both, time.Minute); !frozen || err != nil || !p.isFrozen() {
			t.Errorf("%t, %v", frozen, err)
		}
	}
	for _, want := range []bool{true, false} {
		if held, err := c.Thaw(ctx); held != want || err != nil || p.isFrozen() {
			t.Errorf("%t, %v", held, err)
		}
	}
	if got := strings.Join(p.said, " "); got != "freeze thaw freeze thaw" {
		t.Errorf("%q", got)
	}
	if _, err := c.Freeze(ctx, both, time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.Quiesce(ctx); err != nil || p.isFrozen() {
		t.Errorf("%v", err)
	}
}

// TestFreezeExpires checks that a freeze ends at its time limit and at the end of its session.
func TestFreezeExpires(t *testing.T) {
	c, p := frozenEnv(t)
	ctx := within(t)
	thawed := func(what string) {
		t.Helper()
		testenv.Eventually(t, "it is thawed, because "+what, func() bool { return !p.isFrozen() })
		if held, err := c.Thaw(ctx); held || err != nil {
			t.Errorf("%s: %t, %v", what, held, err)
		}
	}
	if _, err := c.Freeze(ctx, Mounts{Volume: true}, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	thawed("its limit was over")
	const limit = time.Minute
	began := time.Now()
	if _, err := c.Freeze(ctx, Mounts{Volume: true}, limit); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // longer than the limit of the previous freeze
	if !p.isFrozen() {
		t.Error("the limit of one freeze ended another")
	}
	c.current().close()
	thawed("its session was over")
	if took := time.Since(began); took >= limit {
		t.Errorf("it was thawed after %v, at its limit", took)
	}
}

// TestHeldUntilRenewed ends a session while processes are stopped. It checks that the file systems
// thaw then, but the processes stay stopped. The processes resume when a session renews the
// machine, after the time limit, or with Thaw. With Identity.Held they stay stopped until Thaw,
// even if the link breaks.
func TestHeldUntilRenewed(t *testing.T) {
	c, p := frozenEnv(t)
	ctx := within(t)
	hold := func(limit time.Duration) {
		t.Helper()
		if _, err := c.Hold(ctx, Mounts{Root: true, Volume: true}, limit); err != nil || !p.isHeld() || !p.isFrozen() {
			t.Fatalf("%v, held: %t, frozen: %t", err, p.isHeld(), p.isFrozen())
		}
	}
	hold(time.Minute)
	if _, err := c.Thaw(ctx); err != nil || p.isHeld() {
		t.Errorf("thawed: %v, held: %t", err, p.isHeld())
	}
	if _, err := c.Hold(ctx, Mounts{Root: true, Volume: true}, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "its limit is over", func() bool { return !p.isHeld() && !p.isFrozen() })
	hold(time.Minute)
	c.current().close()
	testenv.Eventually(t, "its session is over", func() bool { return !p.isFrozen() })
	if !p.isHeld() {
		t.Error("processes run before the machine is renewed")
	}
	if err := c.Renew(ctx, NewIdentity("again")); err != nil || p.isHeld() {
		t.Errorf("renewed: %v, held: %t", err, p.isHeld())
	}
	still := NewIdentity("still")
	still.Held = true
	limit := 100 * time.Millisecond
	for ; !p.isHeld(); limit *= 2 { // on a slow host, a short limit is over before Renew
		if _, err := c.Hold(ctx, Mounts{Root: true, Volume: true}, limit); err != nil {
			t.Fatal(err)
		}
		if err := c.Renew(ctx, still); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(limit) // longer than the time limit, because the loop has doubled it
	c.current().close()
	if _, err := c.Status(ctx); err != nil || !p.isHeld() {
		t.Errorf("renew without thaw: got %v, held: %t", err, p.isHeld())
	}
	if _, err := c.Thaw(ctx); err != nil || p.isHeld() {
		t.Errorf("thawed: %v, held: %t", err, p.isHeld())
	}
	hold(time.Minute)
	c.current().close()
	if _, err := c.Status(ctx); err != nil || p.isHeld() {
		t.Errorf("in a session after Thaw: %v, held: %t", err, p.isHeld())
	}
	hold(time.Minute)
	if err := c.Quiesce(ctx); err != nil || p.isHeld() {
		t.Errorf("%v, held: %t", err, p.isHeld())
	}
}

// TestFrozenVolumeRejectsChanges checks that a change to a frozen volume waits until the thaw.
func TestFrozenVolumeRejectsChanges(t *testing.T) {
	c, p := frozenEnv(t)
	ctx := within(t)
	if _, err := c.Freeze(ctx, Mounts{Volume: true}, time.Minute); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		err := c.WriteVolumeFile(ctx, FileSpec{Path: "file", Size: 1}, strings.NewReader("x"))
		if err == nil && p.isFrozen() {
			err = errors.New("it was written while it was frozen")
		}
		waiting <- err
	}()
	select {
	case err := <-waiting:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := c.Thaw(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// TestQuiesce checks that no process runs or starts after Quiesce, and that all written data is
// complete.
func TestQuiesce(t *testing.T) {
	dir := memory(t)
	c := dial(t, startAgentWith(t, dir))
	ctx := within(t)
	if _, err := c.Mount(ctx, Mounts{Volume: true}); err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() {
		command := sh("echo begun >begun; setsid sleep 1000 & sleep 1000")
		command.Cwd, command.Env = "/workspace", []string{mark}
		_, err := c.Exec(ctx, command, program.Attach{})
		running <- err
	}()
	testenv.Eventually(t, "the command has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, volume.FilesFolder, "begun"))
		return err == nil
	})
	for range 2 {
		if err := c.Quiesce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("leftover processes: %v", left)
	}
	if err := <-running; err != nil {
		t.Errorf("end of the command: got error %v, want nil", err)
	}
	for name, call := range map[string]func() error{
		"Exec":            func() error { _, err := c.Exec(ctx, sh("true"), program.Attach{}); return err },
		"Stat":            func() error { _, err := c.Stat(ctx, "/"); return err },
		"WriteFile":       func() error { return c.WriteFile(ctx, FileSpec{Path: dir + "/never"}, nil) },
		"WriteVolumeFile": func() error { return c.WriteVolumeFile(ctx, FileSpec{Path: "never"}, nil) },
		"List":            func() error { return c.List(ctx, "", true, nil) },
		"Mount":           func() error { _, err := c.Mount(ctx, Mounts{Volume: true}); return err },
		"Freeze":          func() error { _, err := c.Freeze(ctx, Mounts{Volume: true}, time.Second); return err },
	} {
		if err := call(); fault.KindOf(err) != fault.Precondition {
			t.Errorf("%s: %s: %v", name, fault.KindOf(err), err)
		}
	}
	if _, err := c.Status(ctx); err != nil {
		t.Error(err)
	}
}
