// Package client talks to the agent of a machine over its link.
//
// The client does not trust the agent. It limits the number and size of messages, checks offsets,
// and ends each call when the call's context ends. If the link breaks during a call that can be
// repeated, the client opens a new session, renews the machine and repeats the call.
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

// Limits of messages from an agent, in bytes. They are the protocol's limits plus the overhead of
// the encoding.
const (
	maxMessage   = 1<<20 + 64<<10
	maxHeader    = 64 << 10
	maxFrame     = 1 << 20
	streamWindow = 2 << 20   // flow-control window of one call
	connWindow   = 128 << 20 // window of all calls together; large, so that an unread call does not block others
)

// Client is a connection to the agent of a machine. It is safe for concurrent use.
type Client struct {
	stream  *link.Stream
	life    context.Context // Close cancels it
	end     context.CancelFunc
	opening chan struct{} // a lock: contains a token while a goroutine opens a session or closes the client

	mu       sync.Mutex
	session  *session
	identity *Identity // the argument of the last Renew; nil before the first
	ended    endedCommands

	buffer sharedFile
}

// session is one session of the link.
type session struct {
	rpc       agentv1connect.AgentServiceClient
	http      *http.Client
	transport *http.Transport
	conn      *connection
}

// connection is the connection of a session. over is true if the connection is broken or closed.
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
		c.Conn.SetReadDeadline(time.Unix(1, 0)) // unblocks calls that wait for a response to the lost request
	}
	return n, err
}

// Close closes the connection. Every call of Close returns only after the session has stopped using
// the stream, so that the next session can start.
func (c *connection) Close() (err error) {
	c.over.Store(true)
	c.close.Do(func() { err = c.Conn.Close() })
	return err
}

// Dial opens a session with the agent at the other end of a stream. It waits for the agent until
// ctx ends. The caller must not use the stream until Close has returned. Close does not close the
// stream.
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
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: connWindow, MaxReceiveBufferPerStream: streamWindow,
			StrictMaxConcurrentRequests: true, // a session can't open a second connection
		},
		// The transport gives its new connection to the first call and only then puts it into its
		// pool. Without this limit, a second call in between would dial.
		MaxConnsPerHost: 1,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				conn.over.Store(true) // the session's only connection accepts no more calls
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
			connect.WithReadMaxBytes(maxMessage), connect.WithAcceptCompression("gzip", nil, nil)), // no compression
	}, nil
}

func (s *session) close() {
	s.conn.Close()
	s.transport.CloseIdleConnections()
}

// broken reports whether the connection of the session has failed or was closed.
func (s *session) broken() bool { return s.conn.over.Load() }

// Close ends the session. It is idempotent. Processes in the machine keep running.
func (c *Client) Close() error {
	c.end()
	c.opening <- struct{}{} // wait until a running call of reopen has ended, which c.end has cancelled
	defer func() { <-c.opening }()
	c.current().close()
	return nil
}

// current returns the current session.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// live returns the current session. If it is broken, live opens a new one.
func (c *Client) live(ctx context.Context) (*session, error) {
	s := c.current()
	if !s.broken() {
		return s, nil
	}
	return c.reopen(ctx, s)
}

// reopen replaces a broken session and renews the machine. If another goroutine has already
// replaced the session, reopen returns the new one.
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

// openRenewed opens a session. If Renew has succeeded on this client before, openRenewed also
// renews the machine.
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
		err = s.errorOf(ctx, err)
		s.close()
		if !again {
			return nil, err
		}
	}
}

// errClosed is the error of calls on a closed client.
var errClosed = fault.Newf(fault.Unavailable, "the connection to the agent is closed")

// unavailable returns the error for a session that could not be opened or whose link broke. If ctx
// has ended, it returns the cause of ctx.
func unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &fault.Error{Kind: fault.Unavailable, Err: fmt.Errorf("the link to the machine is lost: %w", err)}
}

// lost reports whether a call failed because its session broke. Such a call can be repeated. lost
// returns false for errors that the agent reported.
func (s *session) lost(err error) bool {
	var reported *fault.Error
	return s.broken() && !connect.IsWireError(err) && !errors.As(err, &reported) && !errors.Is(err, errWriter)
}

// do makes a call. If the session breaks, do repeats the call in a new session.
func (c *Client) do(ctx context.Context, call func(context.Context, *session) error) error {
	s, err := c.live(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := call(ctx, s)
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !s.lost(err) {
			return s.errorOf(ctx, err)
		}
		if s, err = c.reopen(ctx, s); err != nil {
			return err
		}
	}
}

// maxAttempts is the maximum number of attempts of a call, each in a new session.
const maxAttempts = 5

// errorOf returns the error of a failed call with its kind. It is one of these, in order:
//   - the cause of ctx, if ctx has ended.
//   - the error that the agent reported.
//   - Unavailable, if the link is broken.
//   - Corrupt, for an invalid response.
func (s *session) errorOf(ctx context.Context, err error) error {
	var reported *fault.Error
	var rpc *connect.Error
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause != nil:
		return cause
	case errors.As(err, &reported) || errors.Is(err, errWriter):
		return err
	case connect.IsWireError(err) && errors.As(err, &rpc):
		return &fault.Error{Kind: fault.FromRPC(uint32(rpc.Code())), Err: errors.New(text(rpc.Message(), maxText))}
	case s.broken():
		return unavailable(ctx, err)
	default:
		return corrupt("%s", text(err.Error(), maxText))
	}
}

// corrupt returns an error that says how the agent violated the protocol.
func corrupt(format string, args ...any) error {
	return fault.New(fault.Corrupt, "understand the agent", "", format, args...)
}

// Status describes an agent.
type Status struct {
	Version string
	Kernel  string
	Uptime  time.Duration
}

// Status asks the agent for its version, kernel and uptime.
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
	return st, fault.Wrap(err, "get the status of the agent", "")
}

// maxText limits the text of an error from the agent, in bytes.
const maxText = 1024

// clip returns the first n bytes of s, or all of s if it is shorter.
func clip(s string, n int) string { return s[:min(len(s), n)] }

// text returns the first n bytes of a text from the agent, in printable form.
func text(s string, n int) string { return fault.Printable(clip(s, n)) }
