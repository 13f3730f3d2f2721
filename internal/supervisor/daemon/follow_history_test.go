package daemon

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// historyFollower is a call of FollowHistory that reads the database at each message.
type historyFollower struct {
	ends   chan int // commands with an end, at each message
	ended  chan struct{}
	last   int // commands with an end, when it ended
	paused bool
	err    error
}

// endsOf counts the commands that have an end in the database.
func endsOf(h *home) (n int, err error) {
	all, err := h.store.Commands(context.Background(), h.order.Workspace.ID)
	for _, c := range all {
		if !c.EndedAt.IsZero() {
			n++
		}
	}
	return n, err
}

func followHistory(t *testing.T, h *home) (*historyFollower, *remote.Client) {
	t.Helper()
	watching, err := remote.Watch(t.Context(), h.folder)
	check(t, err)
	t.Cleanup(func() { watching.Close() })
	f := &historyFollower{ends: make(chan int, 100), ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		f.paused, f.err = watching.FollowHistory(t.Context(), func() error {
			n, err := endsOf(h)
			f.ends <- n
			return err
		})
		if f.err == nil {
			f.last, f.err = endsOf(h)
		}
	}()
	return f, watching
}

// sees waits for the next message, with which so many commands have an end in the database.
func (f *historyFollower) sees(t *testing.T, want int) {
	t.Helper()
	select {
	case n := <-f.ends:
		if n != want {
			t.Errorf("a message came with %d ends in the database, not %d", n, want)
		}
	case <-f.ended:
		t.Fatalf("it ended: %v", f.err)
	case <-time.After(20 * time.Second):
		t.Fatal("no message came")
	}
}

func (f *historyFollower) wait(t *testing.T) {
	t.Helper()
	select {
	case <-f.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the follower does not end")
	}
}

// TestFollowingHistory gets one message for each end of a command, and none for anything else. It does not use the workspace.
func TestFollowingHistory(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	f, watching := followHistory(t, h)
	f.sees(t, 0)
	for n := 1; n <= 3; n++ {
		run(t, c, "echo one")
		f.sees(t, n)
	}
	before, err := watching.Status(t.Context())
	check(t, err)
	another, _ := followHistory(t, h)
	another.sees(t, 3)
	c.Close()
	release, err := h.folder.Unused()
	check(t, err)
	release()
	after, err := watching.Status(t.Context())
	check(t, err)
	if !after.LastActivityAt.Equal(before.LastActivityAt) {
		t.Errorf("active at %v, then %v", before.LastActivityAt, after.LastActivityAt)
	}
	if len(f.ends) != 0 {
		t.Errorf("a message came with %d ends, though no command ended", <-f.ends)
	}
	h.dial(t) // for the end of the test: c is closed
}

// TestFollowingHistoryEnds stops the machine, and kills the supervisor, while the history is followed and commands run.
func TestFollowingHistoryEnds(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		h, c := live(t)
		f, _ := followHistory(t, h)
		f.sees(t, 0)
		text := mark()
		const many = 20
		var slept []<-chan error
		for range many {
			slept = append(slept, sleeper(t, c, text))
		}
		began := time.Now()
		if killed {
			s, err := c.Status(t.Context())
			check(t, err)
			check(t, syscall.Kill(s.PID, syscall.SIGKILL))
		} else {
			stopper := h.dial(t)
			check(t, stopper.Stop(t.Context(), "", false))
		}
		f.wait(t)
		for _, end := range slept {
			<-end
		}
		switch {
		case killed:
			if fault.KindOf(f.err) != fault.Unavailable {
				t.Errorf("killed: %v", f.err)
			}
		case f.err != nil || f.paused || time.Since(began) > closePatience:
			t.Errorf("stopped: paused %v, %v, after %v", f.paused, f.err, time.Since(began))
		case f.last != many:
			t.Errorf("of the %d commands that the stop ended, %d had an end when the follower was told of the last", many, f.last)
		}
		h.ended(t, text)
	}
}
