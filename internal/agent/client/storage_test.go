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
)

// place is a place whose file systems only seem to be frozen.
type place struct {
	files
	mu     sync.Mutex
	frozen bool
	held   bool
	said   []string
}

func (p *place) say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, what)
}

func (p *place) Freeze(root, volume bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		return false, errors.New("frozen already")
	}
	p.frozen = true
	p.said = append(p.said, "freeze")
	return true, nil
}

func (p *place) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	p.said = append(p.said, "thaw")
	return nil
}

func (p *place) Hold() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	return nil
}

func (p *place) Release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	return nil
}

func (p *place) isHeld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *place) Quiesce(context.Context) error {
	p.say("quiesce")
	return nil
}

func (p *place) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen
}

func frozenPlace(t *testing.T) (*Client, *place) {
	t.Helper()
	root, err := os.Open(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := volume.Open(root, volume.Whole)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{files: files{volume: v}}
	c, _ := windowedIn(t, false, p)
	t.Cleanup(func() { v.Close(within(t, 10*time.Second)) })
	return c, p
}

// TestFrozenUntilThawed, and again; a freeze while frozen begins anew.
func TestFrozenUntilThawed(t *testing.T) {
	c, p := frozenPlace(t)
	ctx := within(t, 20*time.Second)
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

// TestAFreezeEnds with its limit, and with its session.
func TestAFreezeEnds(t *testing.T) {
	c, p := frozenPlace(t)
	ctx := within(t, 20*time.Second)
	thawed := func(what string) {
		t.Helper()
		eventually(t, func() error {
			if p.isFrozen() {
				return errors.New("it is frozen still: " + what)
			}
			return nil
		})
		if held, err := c.Thaw(ctx); held || err != nil {
			t.Errorf("%s: %t, %v", what, held, err)
		}
	}
	if _, err := c.Freeze(ctx, Mounts{Volume: true}, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	thawed("its limit was over")
	if _, err := c.Freeze(ctx, Mounts{Volume: true}, time.Minute); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // longer than the limit before
	if !p.isFrozen() {
		t.Error("the limit of one freeze ended another")
	}
	c.current().close()
	thawed("its session was over")
}

// TestHeldUntilRenewed has no process run after a session is over, though the file systems thaw, before the next one has renewed the machine; or the limit is over, or
// somebody thaws. Who renews it may have them stay as they are, whatever becomes of the link, and however long it takes.
func TestHeldUntilRenewed(t *testing.T) {
	c, p := frozenPlace(t)
	ctx := within(t, 20*time.Second)
	hold := func(limit time.Duration) {
		t.Helper()
		if _, err := c.Hold(ctx, Mounts{Root: true, Volume: true}, limit); err != nil || !p.isHeld() || !p.isFrozen() {
			t.Fatalf("%v, held: %t, frozen: %t", err, p.isHeld(), p.isFrozen())
		}
	}
	until := func(what string, is func() bool) {
		t.Helper()
		eventually(t, func() error {
			if !is() {
				return errors.New("not yet: " + what)
			}
			return nil
		})
	}
	hold(time.Minute)
	if _, err := c.Thaw(ctx); err != nil || p.isHeld() {
		t.Errorf("thawed: %v, held: %t", err, p.isHeld())
	}
	hold(50 * time.Millisecond)
	until("its limit is over", func() bool { return !p.isHeld() && !p.isFrozen() })
	hold(time.Minute)
	c.current().close()
	until("its session is over", func() bool { return !p.isFrozen() })
	if !p.isHeld() {
		t.Error("processes run before the machine is renewed")
	}
	if err := c.Renew(ctx, NewIdentity("again")); err != nil || p.isHeld() {
		t.Errorf("renewed: %v, held: %t", err, p.isHeld())
	}
	hold(100 * time.Millisecond)
	still := NewIdentity("still")
	still.Held = true
	if err := c.Renew(ctx, still); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // longer than the limit was
	c.current().close()
	if _, err := c.Status(ctx); err != nil || !p.isHeld() {
		t.Errorf("renewed to stay as it is: %v, held: %t", err, p.isHeld())
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

// TestNoChangeIsAppliedToWhatIsFrozen: it waits.
func TestNoChangeIsAppliedToWhatIsFrozen(t *testing.T) {
	c, p := frozenPlace(t)
	ctx := within(t, 20*time.Second)
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

// TestQuiesce: nothing runs afterwards, nothing begins, and what was written is whole.
func TestQuiesce(t *testing.T) {
	dir := memory(t)
	c := dial(t, startAgentWith(t, dir))
	ctx := within(t, 60*time.Second)
	if _, err := c.Mount(ctx, Mounts{Volume: true}); err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() {
		command := sh("echo begun >begun; setsid sleep 1000 & sleep 1000")
		command.Cwd, command.Env = "/workspace", []string{mark}
		_, err := c.Exec(ctx, command, nil, nil, nil)
		running <- err
	}()
	eventually(t, func() error {
		_, err := os.Stat(filepath.Join(dir, volume.FilesFolder, "begun"))
		return err
	})
	for range 2 {
		if err := c.Quiesce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if err := <-running; err != nil {
		t.Errorf("the end of the command was not told: %v", err)
	}
	for name, call := range map[string]func() error{
		"Exec":            func() error { _, err := c.Exec(ctx, sh("true"), nil, nil, nil); return err },
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
