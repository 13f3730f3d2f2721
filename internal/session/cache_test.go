package session

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestCache checks that the cache returns stored values until the state file changes or is removed.
func TestCache(t *testing.T) {
	root := t.TempDir()
	var c cache
	spec := Spec{ID: NewID(time.Now(), 1), Scope: ReadWrite, Command: "true", Cwd: "/", Cols: 80, Rows: 24, Backend: Subprocess, OutputBytes: 1, CreatedAt: time.Now()}
	f, err := Create(root, spec)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(pid int, began bool) {
		t.Helper()
		s, state, b, err := c.read(f)
		if err != nil || s.ID != spec.ID || state.PID != pid || b != began {
			t.Errorf("%+v, %+v, %v, %v", s, state, b, err)
		}
	}
	reads(0, false)
	for pid := 1; pid < 50; pid++ { // within one tick
		if err := f.SetState(State{PID: pid}); err != nil {
			t.Fatal(err)
		}
		reads(pid, true)
	}
	_, _, known := c.get(f)
	if stamp, err := disk.StampOf(f.path(stateName)); err != nil || known && time.Since(time.Unix(0, stamp.CTime)) <= stampTick {
		t.Error("a file of this tick is in the cache:", err)
	}
	time.Sleep(2 * stampTick)
	reads(49, true)
	if _, state, known := c.get(f); !known || state.PID != 49 {
		t.Error("it is not in the cache")
	}
	if err := f.SetState(State{PID: 50}); err != nil {
		t.Fatal(err)
	}
	reads(50, true)
	time.Sleep(2 * stampTick)
	reads(50, true)
	if err := os.WriteFile(f.path(stateName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.read(f); fault.KindOf(err) != fault.Corrupt {
		t.Error(err)
	}
	if err := errors.Join(f.SetState(State{PID: 51}), f.Remove()); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.read(f); fault.KindOf(err) != fault.NotFound || len(c.all) != 0 {
		t.Error(err, c.all)
	}
}
