// Package client talks to the agent of one machine over its link.
//
// What comes from the agent is hostile: messages, their number in flight and everything in them is bounded, offsets must fit, and no call outlives its
// context. When the link breaks, calls that can be repeated open a new session, renew the machine again and go on where they were.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
)

// Bounds of what an agent may send. They are those that the protocol states, with room for what surrounds the data.
const (
	maxMessage    = 1<<20 + 64<<10
	maxHeader     = 64 << 10
	maxFrame      = 1 << 20
	receiveBuffer = 2 << 20   // of what came for a call and was not taken
	sharedBuffer  = 128 << 20 // of all calls: one that is not taken holds up no other
)

// Client is a machine's agent. It is safe for concurrent use.
type Client struct {
	stream  *link.Stream
	life    context.Context // until Close
	end     context.CancelFunc
	opening chan struct{} // holds a token while a session is opened or the client closed

	mu       sync.Mutex
	session  *session
	identity *Identity // of the last Renew
	ended    ended

	window shared
}

// session is one session of the link.
type session struct {
	rpc       agentv1connect.AgentServiceClient
	http      *http.Client
	transport *http.Transport
	conn      *connection
}

// connection is the connection of a session, which knows whether it is over.
type connection struct {
	net.Conn
	over  atomic.Bool
	close sync.Once
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.over.Store(true)
	}
	return n, err
}

func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.over.Store(true)
		c.Conn.SetReadDeadline(time.Unix(1, 0)) // who waits for an answer to what was not sent comes out
	}
	return n, err
}

// Close returns when nobody uses the stream any more, also where somebody else has begun to close: the next session may begin then.
func (c *connection) Close() (err error) {
	c.over.Store(true)
	c.close.Do(func() { err = c.Conn.Close() })
	return err
}

// Dial opens a session with the agent at the other end of a stream. It waits for the agent as long as ctx lets it. The stream stays the caller's, who must
// not use it before Close.
func Dial(ctx context.Context, stream net.Conn) (*Client, error) {
	c := &Client{stream: link.NewStream(stream), opening: make(chan struct{}, 1)}
	s, err := c.open(ctx)
	if err != nil {
		return nil, fault.Wrap(unavailable(ctx, err), "reach the agent", "")
	}
	c.session = s
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

func (c *Client) open(ctx context.Context) (*session, error) {
	stream, err := link.Open(ctx, c.stream)
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: stream}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	once := make(chan net.Conn, 1)
	once <- conn
	transport := &http.Transport{
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: sharedBuffer, MaxReceiveBufferPerStream: receiveBuffer,
			StrictMaxConcurrentRequests: true, // there is no other connection for what is more
		},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				conn.over.Store(true) // a session has one connection, and that takes no more calls
				return nil, link.ErrLost
			}
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &session{
		http: client, transport: transport, conn: conn,
		rpc: agentv1connect.NewAgentServiceClient(client, "http://agent",
			connect.WithReadMaxBytes(maxMessage), connect.WithAcceptCompression("gzip", nil, nil)), // nobody compresses
	}, nil
}

func (s *session) close() {
	s.conn.Close()
	s.transport.CloseIdleConnections()
}

// broken tells whether nothing goes over the session any more.
func (s *session) broken() bool { return s.conn.over.Load() }

// Close ends the session. What the agent runs goes on. Idempotent.
func (c *Client) Close() error {
	c.end()
	c.opening <- struct{}{} // whoever opens a session has noticed
	defer func() { <-c.opening }()
	c.current().close()
	return nil
}

// current is the session that calls go over now.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// live is the session that calls go over now, or a new one where that is known to be broken.
func (c *Client) live(ctx context.Context) (*session, error) {
	s := c.current()
	if !s.broken() {
		return s, nil
	}
	return c.reopen(ctx, s)
}

// reopen opens a session in the place of one that broke, unless somebody has done so already, and renews the machine in it.
func (c *Client) reopen(ctx context.Context, broken *session) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(errClosed) })()
	select {
	case c.opening <- struct{}{}:
		defer func() { <-c.opening }()
	case <-ctx.Done():
		return nil, unavailable(ctx, nil)
	}
	if c.life.Err() != nil {
		return nil, errClosed
	}
	if s := c.current(); s != broken {
		return s, nil
	}
	broken.close()
	s, err := c.openRenewed(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	return s, nil
}

// openRenewed opens a session and renews the machine in it, where that had been done before.
func (c *Client) openRenewed(ctx context.Context) (*session, error) {
	c.mu.Lock()
	identity := c.identity
	c.mu.Unlock()
	for attempt := 1; ; attempt++ {
		s, err := c.open(ctx)
		if err != nil {
			return nil, unavailable(ctx, err)
		}
		if identity == nil {
			return s, nil
		}
		if _, err = renew(ctx, s, *identity); err == nil {
			return s, nil
		}
		again := attempt < maxAttempts && ctx.Err() == nil && s.lost(err)
		err = s.because(ctx, err)
		s.close()
		if !again {
			return nil, err
		}
	}
}

// errClosed is what a closed client gives.
var errClosed = fault.Newf(fault.Unavailable, "the connection to the agent is closed")

// unavailable says that a session could not be opened.
func unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &fault.Error{Kind: fault.Unavailable, Err: fmt.Errorf("the link to the machine is lost: %w", err)}
}

// lost tells whether a call failed because its session broke, so that it is worth another. What the agent itself said never is.
func (s *session) lost(err error) bool {
	var told *fault.Error
	return s.broken() && !connect.IsWireError(err) && !errors.As(err, &told) && !errors.Is(err, errWriter)
}

// do makes a call that may be repeated.
func (c *Client) do(ctx context.Context, call func(context.Context, *session) error) error {
	s, err := c.live(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := call(ctx, s)
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !s.lost(err) {
			return s.because(ctx, err)
		}
		if s, err = c.reopen(ctx, s); err != nil {
			return err
		}
	}
}

// maxAttempts bounds how often one call is made again over a new session.
const maxAttempts = 5

// because gives a call's error its kind: the reason of ctx where that ended it, what the agent said, or that the agent or the link can't be understood.
func (s *session) because(ctx context.Context, err error) error {
	var told *fault.Error
	var rpc *connect.Error
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause != nil:
		return cause
	case errors.As(err, &told) || errors.Is(err, errWriter):
		return err
	case connect.IsWireError(err) && errors.As(err, &rpc):
		return &fault.Error{Kind: fault.FromRPC(uint32(rpc.Code())), Err: errors.New(text(rpc.Message(), maxText))}
	case s.broken():
		return unavailable(ctx, err)
	default:
		return corrupt("%s", text(err.Error(), maxText))
	}
}

// corrupt says that the agent does not keep to the protocol.
func corrupt(format string, args ...any) error {
	return fault.New(fault.Corrupt, "understand the agent", "", format, args...)
}

// Status is what an agent says of itself.
type Status struct {
	Version string
	Kernel  string
	Uptime  time.Duration
}

// Status asks the agent what it is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	err := c.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.rpc.Status(ctx, connect.NewRequest(&agentv1.StatusRequest{}))
		if err != nil {
			return err
		}
		st = Status{text(r.Msg.Version, 64), text(r.Msg.Kernel, 128), time.Duration(r.Msg.UptimeMs) * time.Millisecond}
		return nil
	})
	return st, fault.Wrap(err, "ask the agent what it is", "")
}

// maxText bounds what an agent says of an error.
const maxText = 1024

// clip bounds a text from the agent.
func clip(s string, n int) string { return s[:min(len(s), n)] }

// text is a text from the agent that people read.
func text(s string, n int) string { return fault.Printable(clip(s, n)) }
