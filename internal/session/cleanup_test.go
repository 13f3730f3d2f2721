package session

import (
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFinishWaitsForProbe checks that a session without a session process is ended although another
// process locks it for a moment.
func TestFinishWaitsForProbe(t *testing.T) {
	m := &Manager{Root: t.TempDir()}
	f, err := Create(m.Root, Spec{ID: NewID(time.Now(), 1), OutputBytes: 1, CreatedAt: time.Now(), Backend: Subprocess})
	if err == nil {
		err = f.SetState(State{})
	}
	if err != nil {
		t.Fatal(err)
	}
	probe, err := f.LockProcess()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { probe.Release() }()
	if err := m.finish(f, Killed); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("while it stays locked: %v", err)
	}
	testenv.Eventually(t, "the session is ended", func() bool {
		finished, began := make(chan error, 1), time.Now()
		go func() { finished <- m.finish(f, Killed) }()
		time.Sleep(100 * time.Millisecond)
		probe.Release()
		err := <-finished
		// A stalled test holds the lock for too long.
		if err != nil && time.Since(began) >= finishPatience {
			if probe, err = f.LockProcess(); err != nil {
				t.Fatal(err)
			}
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	if state, _, err := f.State(); err != nil || state.Running() || state.EndedAt.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
}
