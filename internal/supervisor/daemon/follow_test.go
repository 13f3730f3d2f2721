package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFollowing tests following services. All subtests share one machine.
func TestFollowing(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"live": testFollowLive, "lines": testFollowLines, "a slow reader": testFollowSlowly, "one run": testFollowOneRun,
			"client leaves": testFollowClientLeaves, "not running": testFollowNotRunning,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
}

// seen collects the output that a follower received.
type seen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	dropped int64
}

func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// following is a call of FollowService.
type following struct {
	out, errs seen
	ended     chan struct{}
	end       remote.ServiceEnd
	err       error
}

func follow(ctx context.Context, c *remote.Client, name string, lines int) *following {
	f := &following{ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		f.end, f.err = c.FollowService(ctx, name, remote.ServiceReader{Lines: lines, Out: &f.out, Errs: &f.errs, Dropped: func(out, errs int64) {
			f.out.dropped += out
			f.errs.dropped += errs
		}})
	}()
	return f
}

func (f *following) wait(t *testing.T) {
	t.Helper()
	select {
	case <-f.ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the follower did not end")
	}
}

func (f *following) runs() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// touch creates an empty file in the workspace.
func touch(t *testing.T, h *home, name string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(h.files(), name), nil, 0o644))
}

func testFollowLive(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "comes", sh(`echo one; echo bad >&2; while ! test -e go; do sleep 0.01; done; echo two; while ! test -e end; do sleep 0.01; done; exit 3`), nil))
	f := follow(t.Context(), c, "comes", 0)
	testenv.Eventually(t, "the first line arrives", func() bool { return f.out.String() == "one\n" && f.errs.String() == "bad\n" })
	touch(t, h, "go")
	testenv.Eventually(t, "the second line arrives", func() bool { return f.out.String() == "one\ntwo\n" })
	if !f.runs() {
		t.Error("the follower ended before the service")
	}
	touch(t, h, "end")
	f.wait(t)
	if f.err != nil || f.end.EndedAt.IsZero() || f.end.Result.Code != 3 || f.end.Result.Stopped || f.out.dropped != 0 {
		t.Errorf("%+v, %v", f.end, f.err)
	}
}

func testFollowLines(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "lines", sh(`seq 1 9; sleep 1000`), nil))
	testenv.Eventually(t, "it has printed", func() bool { out, _ := h.logs(t, "lines"); return strings.HasSuffix(out, "9\n") })
	f := follow(t.Context(), c, "lines", 2)
	testenv.Eventually(t, "the last lines arrive", func() bool { return f.out.String() == "8\n9\n" })
	check(t, c.StopService(t.Context(), "lines"))
	f.wait(t)
	if f.err != nil || !f.end.Result.Stopped || f.out.String() != "8\n9\n" {
		t.Errorf("%+v, %v, %q", f.end, f.err, f.out.String())
	}
}

// slow is a writer that blocks until its channel is closed.
type slow struct {
	*seen
	began chan<- struct{} // receives a value when the first Write begins
	may   <-chan struct{}
}

func (s slow) Write(b []byte) (int, error) {
	select {
	case s.began <- struct{}{}:
	default:
	}
	<-s.may
	return s.seen.Write(b)
}

// testFollowSlowly checks that a follower loses output if it does not read, and that the lost bytes
// are counted. The service prints more than a log keeps.
func testFollowSlowly(t *testing.T, h *home, c *remote.Client) {
	const total = 12 << 20
	check(t, begin(c, t.Context(), "slow", sh(`echo begin; while ! test -e flood; do sleep 0.01; done; head -c 12582912 /dev/zero; echo end`), nil))
	began, may, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var out, errs seen
	var end remote.ServiceEnd
	var err error
	go func() {
		defer close(ended)
		end, err = c.FollowService(t.Context(), "slow", remote.ServiceReader{Out: slow{&out, began, may}, Errs: &errs, Dropped: func(n, _ int64) { out.dropped += n }})
	}()
	<-began // otherwise the flood could push "begin" out of the log before the follower reads it
	touch(t, h, "flood")
	if s := h.awaitEnd(t, "slow"); s.Result.Code != 0 {
		t.Errorf("the service: %+v", s)
	}
	close(may)
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the follower did not end")
	}
	text := out.String()
	if err != nil || end.EndedAt.IsZero() || !strings.HasPrefix(text, "begin\n") || !strings.HasSuffix(text, "\x00end\n") {
		t.Errorf("%+v, %v, %d bytes", end, err, len(text))
	}
	if out.dropped == 0 || int64(len(text))+out.dropped != total+int64(len("begin\nend\n")) {
		t.Errorf("received %d bytes and lost %d, of %d", len(text), out.dropped, total)
	}
}

// testFollowOneRun checks that a follower sees only one run of a service, even if the service is
// started again.
func testFollowOneRun(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "one-run", sh(`echo first; sleep 1000`), nil))
	f := follow(t.Context(), c, "one-run", 0)
	testenv.Eventually(t, "it is followed", func() bool { return f.out.String() == "first\n" })
	check(t, c.StopService(t.Context(), "one-run"))
	check(t, begin(c, t.Context(), "one-run", sh(`echo second; sleep 1000`), nil))
	f.wait(t)
	if f.err != nil || f.out.String() != "first\n" || !f.end.Result.Stopped {
		t.Errorf("%q, %+v, %v", f.out.String(), f.end, f.err)
	}
	check(t, c.StopService(t.Context(), "one-run"))
}

func testFollowClientLeaves(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "left", sh(`echo here; sleep 1000`), nil))
	enough := errors.New("enough")
	ctx, leave := context.WithCancelCause(t.Context())
	f := follow(ctx, c, "left", 0)
	testenv.Eventually(t, "it is followed", func() bool { return f.out.String() == "here\n" })
	leave(enough)
	f.wait(t)
	if !errors.Is(f.err, enough) {
		t.Error(f.err)
	}
	if s := h.service(t, "left"); !s.EndedAt.IsZero() {
		t.Error("the service ended with its follower")
	}
	check(t, c.StopService(t.Context(), "left"))
}

func testFollowNotRunning(t *testing.T, h *home, c *remote.Client) {
	check(t, begin(c, t.Context(), "over", sh(`echo over`), nil))
	h.awaitEnd(t, "over")
	testenv.Eventually(t, "the end is reported", func() bool {
		f := follow(t.Context(), c, "over", 0)
		f.wait(t)
		return fault.KindOf(f.err) == fault.NotFound
	})
	f := follow(t.Context(), c, "none", 0)
	if f.wait(t); fault.KindOf(f.err) != fault.NotFound {
		t.Error(f.err)
	}
}

// TestFollowingEnds checks that a follower ends when the machine is stopped or the supervisor is
// killed.
func TestFollowingEnds(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		testenv.Eventually(t, "a stop does not wait for followers", func() bool { return endFollowed(t, killed) < closePatience })
	}
}

// endFollowed ends a machine that has a follower. It returns the time until the follower has ended.
func endFollowed(t *testing.T, killed bool) time.Duration {
	h, c := live(t)
	check(t, begin(c, t.Context(), "web", sh(`echo here; sleep 1000`), nil))
	watching, err := remote.Watch(t.Context(), h.folder)
	check(t, err)
	defer watching.Close()
	f := follow(t.Context(), watching, "web", 0)
	testenv.Eventually(t, "it is followed", func() bool { return f.out.String() == "here\n" })
	began := time.Now()
	if killed {
		s, err := c.Status(t.Context())
		check(t, err)
		check(t, syscall.Kill(s.PID, syscall.SIGKILL))
	} else {
		check(t, c.Stop(t.Context(), "", false))
	}
	f.wait(t)
	took := time.Since(began)
	if killed && (fault.KindOf(f.err) != fault.Unavailable || !strings.Contains(f.err.Error(), "its supervisor is gone")) {
		t.Errorf("killed: %+v, %v", f.end, f.err)
	}
	// A late follower is cut off.
	if !killed && took < closePatience && (f.err != nil || !f.end.Result.Stopped) {
		t.Errorf("stopped: %+v, %v, after %v", f.end, f.err, took)
	}
	return took
}

// TestFollowersAreNotActivity checks that a workspace with a follower counts as unused.
func TestFollowersAreNotActivity(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	check(t, begin(c, t.Context(), "web", sh(`echo here; sleep 1000`), nil))
	watching, err := remote.Watch(t.Context(), h.folder)
	check(t, err)
	defer watching.Close()
	f := follow(t.Context(), watching, "web", 0)
	testenv.Eventually(t, "it is followed", func() bool { return f.out.String() == "here\n" })
	before, err := watching.Status(t.Context())
	check(t, err)
	c.Close()
	release, err := h.folder.Unused()
	check(t, err)
	release()
	h.dial(t) // needed by the cleanup, because c is closed
	after, err := watching.Status(t.Context())
	check(t, err)
	if !f.runs() || !after.LastActivityAt.Equal(before.LastActivityAt) {
		t.Errorf("active at %v, then %v", before.LastActivityAt, after.LastActivityAt)
	}
}
