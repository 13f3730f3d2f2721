package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// TestRun calls a method without a server.
func TestRun(t *testing.T) {
	m := Bind("say", "", func(_ context.Context, req words, c *Call) (words, error) {
		fmt.Fprint(c.Stdout, "out")
		fmt.Fprint(c.Stderr, "err")
		c.Report(progress.Event{Phase: "p"})
		return req, nil
	})
	var out, errs bytes.Buffer
	var events []progress.Event
	to := Listener{&out, &errs, func(e progress.Event) { events = append(events, e) }}
	result, err := m.Run(t.Context(), json.RawMessage(`{"text": "<a>"}`), to)
	text, failed := m.Encode(result)
	if err != nil || failed != nil || string(text) != `{"text":"<a>"}` || out.String() != "out" || errs.String() != "err" || len(events) != 1 {
		t.Errorf("%s, %v, %v, %q, %q, %v", text, err, failed, out.String(), errs.String(), events)
	}
	for _, params := range []string{`{"stream": true}`, `{"window": 1}`, `{"TEXT": "a"}`, `{"more": 1}`, `[]`, `{`} {
		if _, err := m.Run(t.Context(), json.RawMessage(params), to); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", params, err)
		}
	}
	if _, err := m.Encode(strings.Repeat("a", MaxMessage)); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a large result: %v", err)
	}
	panics := Bind("panic", "", func(context.Context, words, *Call) (any, error) { panic("at the disco") })
	if _, err := panics.Run(t.Context(), nil, Listener{}); fault.KindOf(err) != fault.Internal {
		t.Errorf("a panic: %v", err)
	}
}
