package daemon

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// historyFollower is a call of FollowHistory that reads the database after each message.
type historyFollower struct {
	ends   chan int // number of ended commands in the database, for each message
	ended  chan struct{}
	last   int // number of ended commands in the database when the call returned
	paused bool
	err    error
}

// endsOf returns the number of commands that have an end in the database.
func endsOf(h *home) (n int, err error) {
	all, err := h.store.Commands(context.Background(), h.config.Workspace.ID)
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

// awaitNext waits for the next message. It checks how many commands then have an end in the
// database.
func (f *historyFollower) awaitNext(t *testing.T, want int) {
	t.Helper()
	select {
	case n := <-f.ends:
		if n != want {
			t.Errorf("got a message with %d ends in the database, want %d", n, want)
		}
	case <-f.ended:
		t.Fatalf("it ended: %v", f.err)
	case <-time.After(testenv.Patience):
		t.Fatal("got no message")
	}
}

func (f *historyFollower) wait(t *testing.T) {
	t.Helper()
	select {
	case <-f.ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the follower did not end")
	}
}

// TestFollowingHistory checks that a follower gets one message for each command that ends, and no
// other messages. It also checks that following does not count as use of the workspace.
func TestFollowingHistory(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	f, watching := followHistory(t, h)
	f.awaitNext(t, 0)
	for n := 1; n <= 3; n++ {
		run(t, c, "echo one")
		f.awaitNext(t, n)
	}
	var before remote.Status
	testenv.Eventually(t, "the last call is over", func() bool { // the supervisor records the activity after it has sent the answer
		first, err := watching.Status(t.Context())
		check(t, err)
		time.Sleep(10 * time.Millisecond)
		before, err = watching.Status(t.Context())
		check(t, err)
		return first.LastActivityAt.Equal(before.LastActivityAt)
	})
	another, _ := followHistory(t, h)
	another.awaitNext(t, 3)
	defer h.dial(t) // the cleanup needs a client
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
		t.Errorf("got a message with %d ends, but no command ended", <-f.ends)
	}
}

// TestFollowingHistoryEnds checks that a follower ends when the machine is stopped or the
// supervisor is killed while commands run.
func TestFollowingHistoryEnds(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		testenv.Eventually(t, "a stop does not wait for followers", func() bool { return endFollowedHistory(t, killed) < closePatience })
	}
}

// endFollowedHistory ends a machine that runs commands and has a follower of their history. It
// returns the time until the follower has ended.
func endFollowedHistory(t *testing.T, killed bool) time.Duration {
	h, c := live(t)
	f, _ := followHistory(t, h)
	f.awaitNext(t, 0)
	const many = 20
	var slept []<-chan error
	var marks []string
	for range many {
		marks = append(marks, mark())
		slept = append(slept, sleeper(t, c, marks[len(marks)-1]))
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
	took := time.Since(began)
	for _, end := range slept {
		<-end
	}
	switch {
	case killed:
		if fault.KindOf(f.err) != fault.Unavailable {
			t.Errorf("killed: %v", f.err)
		}
	case took >= closePatience: // a late follower is cut off
	case f.err != nil || f.paused:
		t.Errorf("stopped: paused %v, %v, after %v", f.paused, f.err, took)
	case f.last != many:
		t.Errorf("the stop ended %d commands, but the last report counts %d", many, f.last)
	}
	h.ended(t, marks...)
	return took
}
