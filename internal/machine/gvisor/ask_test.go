package gvisor

import (
	"errors"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// TestAskTheEnded checks what a command to an ended machine says. If the machine ended by itself,
// the error is the reason. If pyro ended it, the broken connection is no news.
func TestAskTheEnded(t *testing.T) {
	t.Parallel()
	reason := errors.New("killed by the kernel")
	for name, of := range map[string]struct {
		closing bool
		want    string
	}{
		"by itself": {false, reason.Error()},
		"by pyro":   {true, "the machine has ended"},
	} {
		near, far, err := machine.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close() })
		far.Close()
		s := &sandbox{control: newControl(near), done: make(chan struct{}), reason: reason, closing: of.closing}
		close(s.done)
		err = s.ask(t.Context(), "pause", "paused")
		if err == nil || err.Error() != of.want {
			t.Errorf("%s: got %v, want %s", name, err, of.want)
		}
		if of.closing && !errors.Is(err, fault.Precondition) {
			t.Errorf("%s: %#v is no failed precondition", name, err)
		}
	}
}

// TestAskWithoutAnswer checks that the error names the cause if the connection breaks but the
// machine does not end.
func TestAskWithoutAnswer(t *testing.T) {
	t.Parallel()
	near, far, err := machine.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far.Close()
	s := &sandbox{control: newControl(near), done: make(chan struct{})}
	if err := s.ask(t.Context(), "pause", "paused"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want a broken pipe", err)
	}
}
