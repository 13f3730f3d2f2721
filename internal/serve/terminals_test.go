package serve

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// reads reads frames until it has read the wanted ones, in any order. Older frames of the type
// holder can come too. Other frames fail the test.
func (c *dialed) reads(wanted ...string) {
	c.t.Helper()
	for len(wanted) > 0 {
		ctx, cancel := context.WithTimeout(c.t.Context(), testenv.Patience)
		_, got, err := c.Read(ctx)
		cancel()
		var e event
		if err == nil {
			err = json.Unmarshal(got, &e)
		}
		if err != nil {
			c.t.Fatalf("%v, want %s", err, wanted)
		}
		if i := slices.Index(wanted, string(got)); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
		} else if e.Type != "holder" {
			c.t.Fatalf("got %s, want %s", got, wanted)
		}
	}
}

// holder returns the frame that names a holder.
func holder(key string, yours bool, others int) string {
	if key != "" {
		key = `"holder":"` + key + `","holder_type":"api_key",`
	}
	return `{"type":"holder",` + key + `"yours":` + strconv.FormatBool(yours) + `,"same_user":false,"others":` + strconv.Itoa(others) + `}`
}

func TestTerminalHolder(t *testing.T) {
	w := newWorld(t)
	by := control.Actor{Type: store.ActorUser, ID: w.owner, TeamID: w.team}
	_, text, err := w.control.NewKey(t.Context(), by, "ci", nil, time.Time{})
	w.check(err)
	w.keys["ci"] = text.Reveal()
	path := "/v1/sandboxes/" + w.create().ID + "/pty"
	started := `{"type":"started","pid":9,"tag":"shared"}`
	a := w.dial("full", path, `{"type":"start","tag":"shared","holder":true}`)
	a.expect(started, holder("test", true, 0))
	b := w.dial("ci", path, `{"type":"connect","tag":"shared","holder":true}`)
	b.expect(started)
	b.reads(holder("test", false, 1))
	a.reads(holder("test", true, 1))

	// A client that has not sent hold does not keep others from typing.
	b.send(`{"type":"input","data":"aGk="}`)
	b.reads(holder("ci", true, 1), `{"type":"output","data":"aGk=","offset":0}`)
	a.reads(`{"type":"output","data":"aGk=","offset":0}`)

	a.send(`{"type":"hold"}`)
	b.reads(holder("test", false, 1))
	for _, f := range []string{`{"type":"input","data":"bm8="}`, `{"type":"resize","cols":50,"rows":20}`, `{"type":"kill"}`} {
		b.send(f)
		if e, _ := b.next(); e.Type != "error" || *e.Fatal || e.Code != "invalid_state" || e.Data != "test has taken over the terminal" || e.Hint != `send {"type": "hold"} to take it over` {
			t.Errorf("%s: %+v", f, e)
		}
	}
	a.send(`{"type":"release"}`)
	b.reads(holder("ci", true, 1)) // the holder before
	b.send(`{"type":"hold"}`, `{"type":"input","data":"eW8="}`)
	b.reads(`{"type":"output","data":"eW8=","offset":2}`)

	b.CloseNow()
	a.reads(holder("", false, 0), `{"type":"output","data":"eW8=","offset":2}`)
	a.send(`{"type":"input","data":"ZXhpdA0="}`)
	a.reads(`{"type":"output","data":"ZXhpdA0=","offset":4}`, `{"type":"exit","exit_code":0}`)
	testenv.Eventually(w.t, "nothing is left of the terminal", func() bool {
		w.server.terminals.mu.Lock()
		defer w.server.terminals.mu.Unlock()
		return len(w.server.terminals.open) == 0
	})
}

func TestWindow(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	fits := func(w *window, n int, want bool) {
		t.Helper()
		if err := w.wait(done, n); (err == nil) != want {
			t.Errorf("%d bytes: %v, want %t", n, err, want)
		}
	}
	w := newWindow(10)
	fits(w, 20, true) // alone
	fits(w, 1, false)
	w.confirm(19)
	fits(w, 9, true)
	fits(w, 1, false)
	w.confirm(-100)
	fits(w, 1, false)
	w.confirm(1000)
	fits(w, 10, true)
	fits(w, 1, false)
	fits(newWindow(0), 1<<30, true)
	fits(newWindow(-1), 1<<30, true)

	waited := make(chan error)
	go func() { waited <- w.wait(t.Context(), 5) }()
	w.confirm(4)
	w.confirm(1)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestPtyWindow gets the second part of the output only because the client confirms the first one.
func TestPtyWindow(t *testing.T) {
	w := newWorld(t)
	c := w.dial("full", "/v1/sandboxes/"+w.create().ID+"/pty", `{"type":"start","window":2}`, `{"type":"input","data":"aGk="}`)
	c.expect(`{"type":"started","pid":9,"tag":"pty-00000000"}`, `{"type":"output","data":"aGk=","offset":0}`)
	c.send(`{"type":"input","data":"eW8="}`, `{"type":"resize"}`)
	if e, _ := c.next(); e.Type != "error" { // the output waits
		t.Errorf("%+v", e)
	}
	c.send(`{"type":"ack","bytes":2}`)
	c.expect(`{"type":"output","data":"eW8=","offset":2}`)
}

// TestBacklog checks that a full backlog drops the oldest output and nothing else.
func TestBacklog(t *testing.T) {
	b := newBacklog[string]()
	b.add("started", 0)
	for _, name := range []string{"a", "b", "c", "d"} {
		b.add(name, maxBacklog/4)
	}
	b.add("resized", 0)
	b.add("e", 1)
	b.add("f", maxBacklog/4)
	b.end(io.ErrUnexpectedEOF)
	var got []string
	for {
		e, ok, err := b.next(t.Context())
		if !ok {
			if err != io.ErrUnexpectedEOF {
				t.Error(err)
			}
			break
		}
		got = append(got, e)
	}
	if want := []string{"started", "d", "resized", "e", "f"}; !slices.Equal(got, want) || b.size != 0 {
		t.Errorf("got %q, want %q; %d bytes are left", got, want, b.size)
	}

	b = newBacklog[string]()
	for range 100_000 {
		b.add("x", 1)
	}
	if most := maxBacklog / eventSize; len(b.events) == 0 || len(b.events) > most {
		t.Errorf("the backlog has %d events of one byte, want at most %d", len(b.events), most)
	}

	b = newBacklog[string]()
	b.add("huge", 3*maxBacklog)
	b.add("last", 1)
	if e, _, _ := b.next(t.Context()); e != "last" {
		t.Errorf("got %q", e)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := b.next(done); ok || err != context.Canceled {
		t.Error(ok, err)
	}
	go b.add("late", 1)
	if e, _, _ := b.next(t.Context()); e != "late" {
		t.Errorf("got %q", e)
	}
}
