package serve

import (
	"testing"

	"github.com/coder/websocket"
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
