package rpc

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lines"
)

const (
	// MaxCalls bounds the calls of a client that are under way at once.
	MaxCalls = 128
	// leavePatience is how long a client that has ended its input may take to read what it is still told.
	leavePatience = 5 * time.Second
)

// Server serves methods. It keeps nothing of its clients.
type Server struct {
	methods  map[string]Method
	patience time.Duration // with a client that has ended its input, to read what it is still told
}

// NewServer makes one.
func NewServer(methods []Method) *Server {
	s := &Server{map[string]Method{}, leavePatience}
	for _, m := range methods {
		s.methods[m.Name] = m
	}
	return s
}

// client is one that is served.
type client struct {
	*Server
	ctx context.Context // in which its calls are
	to  *outlet

	mu      sync.Mutex
	calls   map[string]*Call // under way, by id
	leaving bool
	running sync.WaitGroup
}

var (
	errLeft     = fault.Newf(fault.Canceled, "the client has gone")
	errCanceled = fault.Newf(fault.Canceled, "the client cancelled the call")
)

// Serve serves one client on a pair of streams, both of which it closes, until the client ends its input or reads no more, or ctx ends. Calls that are under way then
// are cancelled, and have ended when Serve returns. A Read of in that does not return when in is closed is abandoned.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &client{Server: s, ctx: ctx, to: newOutlet(), calls: map[string]*Call{}}
	go func() {
		if c.to.write(out) != nil {
			cancel(errLeft)
		}
	}()
	go func() {
		c.listen(in)
		cancel(errLeft)
	}()
	<-ctx.Done()
	in.Close()
	impatient := time.AfterFunc(s.patience, c.to.leave)
	defer impatient.Stop()
	c.await()
	close(c.to.last)
	select {
	case <-c.to.written:
	case <-c.to.gone:
	}
	out.Close()
	return nil
}

// await waits for the end of all calls. None begins any more.
func (c *client) await() {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.running.Wait()
}

// listen serves what a client sends, to its end.
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

// hear serves one message.
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

// begin begins a call.
func (c *client) begin(r request) *failure {
	m, ok := c.methods[r.Method]
	if !ok {
		return refused(codeMethod, fault.Unsupported, "there is no method %.80q", r.Method)
	}
	params, o, err := m.split(r.Params)
	if err != nil {
		return failed(err)
	}
	id := string(r.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leaving:
		return failed(errLeft)
	case c.calls[id] != nil:
		return refused(codeRequest, fault.Invalid, "a call with the id %s is under way", id)
	case len(c.calls) == MaxCalls:
		return failed(fault.New(fault.Exhausted, m.Name, "", "%d calls are under way, and can be", MaxCalls).WithHint("wait for the end of one"))
	}
	call := newCall(c.ctx, r.ID, c.to, o)
	c.calls[id] = call
	c.running.Go(func() { c.serve(m, params, call) })
	return nil
}

// serve serves a call to its end. Until its answer is about to be seen it has its place and its id.
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

// answer answers a request, whatever becomes of the call's context.
func (c *client) answer(a answer, begun func()) {
	a.Version = "2.0"
	text, err := encode(a)
	if err != nil {
		text, _ = encode(answer{Version: a.Version, ID: a.ID, Error: failed(err)}) // of texts alone
	}
	c.to.send(context.Background(), message{text, begun}) // where nobody reads there is nobody to tell
}

// notice serves a notification. One that is not known is none of ours to answer.
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
	case call == nil: // it has ended
	case r.Method == "cancel":
		call.cancel(errCanceled)
	case r.Method == "consumed":
		call.window.consumed(params.Bytes)
	}
}
