package serve

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestWatchSandbox checks the frames of a watched sandbox, until it is removed.
func TestWatchSandbox(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	w.create() // another one, which is not watched
	w.host.Use(id, 1_000_000)
	c := w.dial("read", "/v1/sandboxes/"+id+"/watch")
	c.expect(`{"type":"state","status":"running","last_active_at":"1970-01-12T13:46:40Z"}`)
	w.host.Use(id, 1_000_001)
	c.expect(`{"type":"state","status":"running","last_active_at":"1970-01-12T13:46:41Z"}`)
	w.host.PauseInactive(id)
	c.expect(`{"type":"state","status":"paused","last_active_at":"1970-01-12T13:46:41Z"}`)
	w.host.Lose(id)
	c.expect(`{"type":"state"}`)
	c.ends("", websocket.StatusNormalClosure)

	w.host.BreakStreams()
	other := w.create().ID
	c = w.dial("read", "/v1/sandboxes/"+other+"/watch")
	if e, _ := c.next(); e.Status != "running" {
		t.Errorf("got %+v", e)
	}
	w.host.BreakStreams()
	c.ends("host_unavailable", websocket.StatusTryAgainLater)
}

// TestWatchFolders checks the frames about folders, during pauses and changes of the folders.
func TestWatchFolders(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	var calls atomic.Int32
	w.host.SetBreak(func(call string, done bool) error {
		if call == "watch folders" && !done {
			calls.Add(1)
		}
		return nil
	})
	c := w.dial("read", "/v1/sandboxes/"+id+"/watch", `{"type":"folders","paths":["/a","/é"]}`)
	// Frames about the state and about folders can come in any order.
	expect := func(want ...string) {
		t.Helper()
		for range want {
			e, _ := c.next()
			got := e.Status + e.Path
			if !slices.Contains(want, got) {
				t.Fatalf("got %+v, want %q", e, want)
			}
			want = slices.DeleteFunc(want, func(s string) bool { return s == got })
		}
	}
	expect("running", "/a", "/é")
	w.host.ChangeFolder("/é")
	expect("/é")

	c.send(`{"type":"folders","paths":["/b"]}`)
	expect("/b")
	w.host.ChangeFolder("/a")
	w.host.ChangeFolder("/b")
	expect("/b")

	w.host.PauseInactive(id)
	expect("paused")
	testenv.Eventually(w.t, "the watch ends", func() bool { return w.host.WatchedFolders() == 0 })
	w.host.Set(id, "running")
	expect("running", "/b")
	w.host.ChangeFolder("/b")
	expect("/b")

	w.host.PauseInactive(id)
	expect("paused")
	testenv.Eventually(w.t, "the watch ends", func() bool { return w.host.WatchedFolders() == 0 })
	before := calls.Load()
	c.send(`{"type":"folders","paths":["/c"]}`)
	testenv.Eventually(w.t, "the server asks for the folder", func() bool { return calls.Load() > before })
	w.host.Set(id, "running")
	expect("running", "/c")

	c.send(`{"type":"folders","paths":[]}`)
	testenv.Eventually(w.t, "the watch ends", func() bool { return w.host.WatchedFolders() == 0 })
	w.host.SetBreak(func(call string, _ bool) error {
		if call == "watch folders" {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("too many"))
		}
		return nil
	})
	c.send(`{"type":"folders","paths":["/d"]}`)
	if e, _ := c.next(); e.Type != "error" || *e.Fatal || e.Code != "quota_exceeded" {
		t.Errorf("got %+v, want an error that is not fatal", e)
	}
	w.host.SetBreak(nil)
	c.send(`{"type":"folders","paths":["/d"]}`)
	expect("/d")
	c.send(`{"type":"folders","paths":["/e"` + strings.Repeat(`,"/e"`, maxFolders) + `]}`)
	c.ends("invalid_request", websocket.StatusPolicyViolation)
	testenv.Eventually(w.t, "the watch ends", func() bool { return w.host.WatchedFolders() == 0 })
}
