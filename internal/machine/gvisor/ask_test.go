package gvisor

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// TestAskBroken checks what a command says if the connection to the machine breaks. If the machine
// has ended by itself, the error is the reason. If pyro ended it, the error only says so. If it has
// not ended, the error is the broken connection.
func TestAskBroken(t *testing.T) {
	t.Parallel()
	reason := errors.New("killed by the kernel")
	for name, of := range map[string]struct {
		ended, closing bool
		want           string
		is             error
	}{
		"ended by itself": {true, false, "killed by the kernel", reason},
		"ended by pyro":   {true, true, "the machine has ended", fault.Precondition},
		"not ended":       {false, false, "the connection to the machine is lost: write unix @: sendmsg: broken pipe", syscall.EPIPE},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far, err := machine.NewStream()
				if err != nil {
					t.Fatal(err)
				}
				defer near.Close()
				far.Close()
				s := &sandbox{control: newControl(near), done: make(chan struct{}), reason: reason, closing: of.closing}
				if of.ended {
					close(s.done)
				}
				err = s.ask(t.Context(), "pause", "paused")
				if !errors.Is(err, of.is) || err.Error() != of.want {
					t.Errorf("got %v, want %s", err, of.want)
				}
			})
		})
	}
}
