package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Listener receives the progress and the output of a call. Each field can be nil. Progress is
// called by one goroutine at a time, and its events can be dropped, see [Call.Report].
type Listener struct {
	Stdout, Stderr io.Writer
	Progress       func(progress.Event)
}

// Run calls a method within this process. It checks the params as a server does, except that the
// parameters stream and window are unknown. Run returns when the Listener has received everything.
func (m Method) Run(ctx context.Context, params json.RawMessage, to Listener) (any, error) {
	params, o, err := m.split(params)
	if err != nil {
		return nil, err
	}
	if o != (options{}) {
		return nil, fault.New(fault.Invalid, m.Name, "", "unknown parameters stream and window")
	}
	c := &Call{Stdout: to.Stdout, Stderr: to.Stderr}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	if to.Progress != nil {
		c.begin(to.Progress)
	}
	defer c.finish()
	return m.serve(c.ctx, params, c)
}

// Encode returns a result as JSON. Exhausted: it has more than MaxMessage bytes.
func (m Method) Encode(result any) (json.RawMessage, error) {
	text, err := encode(result)
	if err == nil && len(text) > MaxMessage {
		err = fault.New(fault.Exhausted, m.Name, "", "the result has %d bytes: the limit is %d", len(text), MaxMessage).WithHint("ask for less")
	}
	return bytes.TrimSuffix(text, []byte("\n")), err
}
