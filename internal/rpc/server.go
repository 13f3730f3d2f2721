package rpc

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lines"
	"github.com/pyro-mcp/pyro/internal/socket"
)

const (
	// MaxCalls is the maximum number of concurrent calls per client.
	MaxCalls = 128
	// drainTimeout is how long the server waits for a client that has closed its input to read the
	// remaining answers.
	drainTimeout = 5 * time.Second
)

// Server serves methods. It stores no state for its clients.
type Server struct {
	methods  map[string]Method
	patience time.Duration // socket.FinishTimeout; shorter in tests
	drain    time.Duration // drainTimeout; shorter in tests
}

// NewServer returns a server for the given methods.
func NewServer(methods []Method) *Server {
	s := &Server{map[string]Method{}, socket.FinishTimeout, drainTimeout}
	for _, m := range methods {
		s.methods[m.Name] = m
	}
	return s
}

// client is a connected client.
type client struct {
	*Server
	ctx context.Context // parent of all calls
	to  *sender

	mu      sync.Mutex
	calls   map[string]*Call // running calls by id
	closing bool
	running sync.WaitGroup
}

var (
	errDisconnected = fault.Newf(fault.Canceled, "the client has disconnected")
	errSlow         = fault.Newf(fault.Timeout, "the call did not end in time after the end of the input")
	errCanceled     = fault.Newf(fault.Canceled, "the client cancelled the call")
)

// Serve serves one client on a pair of streams, and closes both. When the client closes its input,
// Serve finishes the running calls, for at most socket.FinishTimeout. When the client no longer
// reads, or when ctx is done, Serve cancels them. It waits for these calls and returns. If closing
// the input does not unblock a read, Serve does not wait for the reading goroutine.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &client{Server: s, ctx: ctx, to: newSender(), calls: map[string]*Call{}}
	go func() {
		if c.to.write(out) != nil {
			cancel(errDisconnected)
		}
	}()
	heard := make(chan struct{})
	go func() {
		c.listen(in)
		close(heard)
	}()
	select {
	case <-ctx.Done():
	case <-heard:
		cancel(c.finish(out))
	}
	in.Close()
	giveUp := time.AfterFunc(s.drain, c.to.disconnect)
	defer giveUp.Stop()
	c.await()
	close(c.to.last)
	select {
	case <-c.to.written:
	case <-c.to.gone:
	}
	out.Close()
	return nil
}

// finish waits for the running calls of a client that has closed its input. It stops waiting if the
// client stops reading. It returns the reason why the calls that still run must end.
func (c *client) finish(out io.Writer) error {
	c.mu.Lock()
	for _, call := range c.calls {
		call.window.open() // no acknowledgement can arrive
	}
	c.mu.Unlock()
	reading, stop := socket.WhileRead(c.ctx, out, c.patience)
	defer stop()
	idle := make(chan struct{})
	go func() {
		c.await()
		close(idle)
	}()
	select {
	case <-idle:
	case <-reading.Done():
		if reading.Err() == context.DeadlineExceeded {
			return errSlow
		}
	}
	return errDisconnected
}

// await refuses new calls and waits for the running calls.
func (c *client) await() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.running.Wait()
}

// listen serves messages until the input ends.
func (c *client) listen(in io.Reader) {
	sent := lines.NewReader(in, MaxMessage)
	for {
		line, fits, err := sent.Next()
		if len(line) > 0 || !fits {
			c.hear(line, fits)
		}
		if err != nil {
			return
		}
	}
}

// hear serves one message from the client.
func (c *client) hear(line []byte, fits bool) {
	r, wrong := read(line, fits)
	switch {
	case wrong != nil:
		c.answer(answer{ID: r.ID, Error: wrong}, nil)
	case r.ID == nil:
		c.notice(r)
	default:
		if wrong := c.begin(r); wrong != nil {
			c.answer(answer{ID: r.ID, Error: wrong}, nil)
		}
	}
}

// begin starts a call.
func (c *client) begin(r request) *failure {
	m, ok := c.methods[r.Method]
	if !ok {
		return refused(codeMethod, fault.Unsupported, "unknown method %.80q", r.Method)
	}
	params, o, err := m.split(r.Params)
	if err != nil {
		return failed(err)
	}
	id := string(r.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return failed(errDisconnected)
	case c.calls[id] != nil:
		return refused(codeRequest, fault.Invalid, "a call with the id %s is running", id)
	case len(c.calls) == MaxCalls:
		return failed(fault.New(fault.Exhausted, m.Name, "", "too many concurrent calls: the limit is %d", MaxCalls).WithHint("wait until one ends"))
	}
	call := newCall(c.ctx, r.ID, c.to, o)
	c.calls[id] = call
	c.running.Go(func() { c.serve(m, params, call) })
	return nil
}

// serve runs a call. The call occupies its slot and its id until its answer is about to be written.
func (c *client) serve(m Method, params json.RawMessage, call *Call) {
	defer call.cancel(nil)
	result, err := m.serve(call.ctx, params, call)
	call.finish()
	a := answer{ID: call.id, Result: result}
	if err != nil {
		a.Result, a.Error = nil, failed(err)
	}
	c.answer(a, func() {
		c.mu.Lock()
		delete(c.calls, string(call.id))
		c.mu.Unlock()
	})
}

// answer sends an answer, even if the context of the call is done.
func (c *client) answer(a answer, begun func()) {
	a.Version = "2.0"
	text, err := encode(a)
	if err != nil {
		text, _ = encode(answer{Version: a.Version, ID: a.ID, Error: failed(err)}) // can't fail: this answer contains only strings
	}
	c.to.send(context.Background(), message{text, begun}) // an error means that the client has stopped reading
}

// notice handles a notification. It ignores notifications with unknown methods.
func (c *client) notice(r request) {
	var params struct {
		ID    json.RawMessage `json:"id"`
		Bytes int64           `json:"bytes"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return
	}
	c.mu.Lock()
	call := c.calls[string(params.ID)]
	c.mu.Unlock()
	switch {
	case call == nil: // the call has ended
	case r.Method == "cancel":
		call.cancel(errCanceled)
	case r.Method == "consumed":
		call.window.consumed(params.Bytes)
	}
}
