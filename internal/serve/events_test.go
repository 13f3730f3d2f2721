package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// eventReader reads a stream of events.
type eventReader struct {
	w      *world
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// message is a server-sent event.
type message struct {
	kind, id, data string
}

// events opens a stream of events.
func (w *world) events(key, query string, headers ...string) *eventReader {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), testenv.Patience)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/events"+query, nil)
	w.check(err)
	req.Header.Set(keyHeader, w.keys[key])
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(req)
	w.check(err)
	w.t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(r.Body)
		w.t.Fatalf("got %d: %s", r.StatusCode, text)
	}
	return &eventReader{w, bufio.NewScanner(r.Body), cancel}
}

// next returns the next message. ok is false at the end of the stream.
func (r *eventReader) next() (m message, ok bool) {
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "event":
			m.kind = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		case "":
			if value == "" && m.data != "" {
				return m, true
			}
		}
	}
	return m, false
}

// event returns the next event, as its type and its data.
func (r *eventReader) event() string {
	r.w.t.Helper()
	m, ok := r.next()
	if !ok {
		r.w.t.Fatal("the stream has ended")
	}
	if m.kind != "" {
		return m.kind + " " + m.id
	}
	var e Event
	r.w.check(json.Unmarshal([]byte(m.data), &e))
	if fmt.Sprint(e.ID) != m.id || e.At.IsZero() || e.Subject == "" {
		r.w.t.Errorf("%+v", m)
	}
	return strings.TrimSpace(e.Type + " " + e.Data["status"])
}

func (r *eventReader) expect(want ...string) {
	r.w.t.Helper()
	for _, want := range want {
		if got := r.event(); got != want {
			r.w.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// TestEvents checks that readers get each change of their own team once, and can resume.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	live, foreign := w.events("read", ""), w.events("foreign", "")
	first, _ := live.next()
	if first.kind != "ready" {
		t.Fatalf("%+v", first)
	}
	b := w.create()
	one := "/v1/sandboxes/" + b.ID
	w.call("full", "POST", one+"/pause", nil, nil)
	w.call("full", "DELETE", one, nil, nil)
	want := []string{"sandbox.created pending", "sandbox.status running", "sandbox.status paused", "sandbox.removed"}
	live.expect(want...)
	again := w.events("full", "?after=0", "Last-Event-ID", first.id)
	again.expect("ready " + first.id)
	again.expect(want...)
	past := w.events("full", "?follow=false&after="+first.id)
	past.expect("ready " + first.id)
	past.expect(want...)
	if m, ok := past.next(); ok {
		t.Errorf("%+v", m)
	}
	m, _ := foreign.next()
	w.check(w.store.AddKey(t.Context(), store.Key{ID: "key-new", TeamID: w.foreign, Hash: "x", CreatedAt: time.Now()}))
	foreign.expect("api_key.created")
	if m.kind != "ready" {
		t.Errorf("%+v", m)
	}
	for _, query := range []string{"?after=x", "?after=-1", "?after=99999999999999999999"} {
		if got := w.call("full", "GET", "/v1/events"+query, nil, nil); got != 400 {
			t.Errorf("%s: got %d", query, got)
		}
	}
}

// TestMissedEvents checks that a reader learns that events were removed, or that its ID is unknown.
func TestMissedEvents(t *testing.T) {
	w := newWorld(t)
	last, err := w.store.LastEvent(t.Context(), w.team)
	w.check(err)
	r := w.events("full", fmt.Sprint("?after=", last+5))
	r.expect(fmt.Sprint("ready ", last+5), fmt.Sprint("gone ", last))
	w.create()
	r.expect("sandbox.created pending")
}

// TestRevokedReader checks that the stream of a key ends when the key is removed.
func TestRevokedReader(t *testing.T) {
	w := newWorld(t)
	k, text, err := w.control.NewKey(t.Context(), control.Actor{Type: store.ActorUser, ID: w.owner, TeamID: w.team}, "made", nil, time.Time{})
	w.check(err)
	w.keys["made"] = text.Reveal()
	r, other := w.events("made", ""), w.events("full", "")
	r.next()
	other.next()
	w.check(w.store.RemoveKey(t.Context(), w.team, k.ID))
	if m, ok := r.next(); ok {
		t.Errorf("a revoked key got %+v", m)
	}
	other.expect("api_key.removed")
	w.server.Shutdown()
	if m, ok := other.next(); ok {
		t.Errorf("after the shutdown: %+v", m)
	}
}

// TestEventStreamsAreBounded checks that the number of streams of a team is limited.
func TestEventStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	var ends []func()
	for range maxEventStreams {
		end, err := w.server.events.add(w.team)
		w.check(err)
		ends = append(ends, end)
	}
	if got := w.call("full", "GET", "/v1/events", nil, nil); got != 429 {
		t.Errorf("got %d", got)
	}
	ends[0]()
	w.events("full", "").next()
}

// TestEventsAtTheLimit changes a record while the sender of a stream is rate limited. The stream
// must still report the change.
func TestEventsAtTheLimit(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.server.requests = newLimiter(1, 1, func() time.Time { return now })
	r := w.events("full", "")
	if got := w.call("full", "GET", "/v1/sandboxes", nil, nil); got != 429 {
		t.Fatalf("got %d", got)
	}
	if m, ok := r.next(); !ok || m.kind != "ready" {
		t.Fatalf("%+v", m)
	}
	_, err := w.control.CreateSandbox(t.Context(), control.Actor{Type: store.ActorUser, ID: w.owner, TeamID: w.team}, control.Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 5120})
	w.check(err)
	if m, ok := r.next(); !ok || !strings.Contains(m.data, store.EventSandboxCreated) {
		t.Errorf("got %+v, %v", m, ok)
	}
}
