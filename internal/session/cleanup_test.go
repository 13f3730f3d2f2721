package session

import (
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
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
	defer probe.Release()
	if err := m.finish(f, Killed); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("while it stays locked: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, probe.Release)
	if err := m.finish(f, Killed); err != nil {
		t.Error(err)
	}
	if state, _, err := f.State(); err != nil || state.Running() || state.EndedAt.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
}
