// Package client talks to the agent of one machine over its link.
//
// What comes from the agent is hostile: messages, their number in flight and everything in them is bounded, offsets must fit, and no call outlives its
// context. When the link breaks, calls that can be repeated open a new session, renew the machine again and go on where they were.
package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
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
	receiveBuffer = 4 << 20
)

// Client is a machine's agent. It is safe for concurrent use.
type Client struct {
	stream net.Conn

	mu       sync.Mutex
	session  *session
	identity *Identity // of the last Renew
	closed   bool
}

// session is one session of the link.
type session struct {
	number    int
	rpc       agentv1connect.AgentServiceClient
	http      *http.Client
	transport *http.Transport
	conn      net.Conn
}

// Dial opens a session with the agent at the other end of a stream. It waits for the agent as long as ctx lets it. The stream stays the caller's, who must
// not use it before Close.
func Dial(ctx context.Context, stream net.Conn) (*Client, error) {
	c := &Client{stream: stream}
	s, err := c.open(ctx, 1)
	if err != nil {
		return nil, fault.Wrap(err, "reach the agent", "")
	}
	c.session = s
	return c, nil
}

func (c *Client) open(ctx context.Context, number int) (*session, error) {
	conn, err := link.Open(ctx, c.stream)
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	once := make(chan net.Conn, 1)
	once <- conn
	transport := &http.Transport{
		Protocols: &protocols,
		HTTP2:     &http.HTTP2Config{MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				return nil, link.ErrLost // a session has one connection
			}
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	client := &http.Client{Transport: transport}
	return &session{
		number: number, http: client, transport: transport, conn: conn,
		rpc: agentv1connect.NewAgentServiceClient(client, "http://agent", connect.WithReadMaxBytes(maxMessage)),
	}, nil
}

func (s *session) close() {
	s.conn.Close()
	s.transport.CloseIdleConnections()
}

// Close ends the session. What the agent runs goes on. Idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.session.close()
	}
	return nil
}

// current is the session that calls go over now.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// reopen opens a session in the place of one that broke, unless somebody has done so already, and renews the machine in it.
func (c *Client) reopen(ctx context.Context, broken *session) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.session.number != broken.number {
		return c.session, nil
	}
	c.session.close()
	s, err := c.open(ctx, broken.number+1)
	if err != nil {
		return nil, err
	}
	if c.identity != nil {
		if err := renew(ctx, s, *c.identity); err != nil {
			s.close()
			return nil, err
		}
	}
	c.session = s
	return s, nil
}

// lost tells whether a call failed because its session broke, so that it is worth another.
func lost(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable:
		return true
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeCanceled, connect.CodeInvalidArgument:
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, link.ErrLost) || errors.Is(err, net.ErrClosed)
	default:
		return false
	}
}

// do makes a call that may be repeated.
func (c *Client) do(ctx context.Context, call func(context.Context, *session) error) error {
	s := c.current()
	for attempt := 1; ; attempt++ {
		err := call(ctx, s)
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !lost(err) {
			return because(ctx, err)
		}
		if s, err = c.reopen(ctx, s); err != nil {
			return because(ctx, err)
		}
	}
}

// maxAttempts bounds how often one call is made again over a new session.
const maxAttempts = 5

// because gives the kind of an RPC's error, and the reason of ctx where that ended it.
func because(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var rpc *connect.Error
	if errors.As(err, &rpc) {
		return &fault.Error{Kind: fault.FromRPC(uint32(rpc.Code())), Err: errors.New(rpc.Message())}
	}
	return err
}

// Identity is what makes a machine its own.
type Identity struct {
	MachineID string // 32 lower-case hex digits
	Hostname  string
}

// NewIdentity makes an identity with a host name and a random machine-id.
func NewIdentity(hostname string) Identity {
	var id [16]byte
	rand.Read(id[:])
	return Identity{MachineID: hex.EncodeToString(id[:]), Hostname: hostname}
}

// entropySize is what the kernel's generator takes in at once.
const entropySize = 64

// Renew gives the machine the host's clock, fresh entropy and an identity. Nothing runs in a session before it has succeeded.
func (c *Client) Renew(ctx context.Context, id Identity) error {
	if err := renew(ctx, c.current(), id); err != nil {
		return fault.Wrap(because(ctx, err), "renew the machine", id.Hostname)
	}
	c.mu.Lock()
	c.identity = &id
	c.mu.Unlock()
	return nil
}

func renew(ctx context.Context, s *session, id Identity) error {
	entropy := make([]byte, entropySize)
	rand.Read(entropy)
	_, err := s.rpc.Renew(ctx, connect.NewRequest(&agentv1.RenewRequest{
		UnixNanos: time.Now().UnixNano(), Entropy: entropy, MachineId: id.MachineID, Hostname: id.Hostname,
	}))
	return err
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
		st = Status{clip(r.Msg.Version, 64), clip(r.Msg.Kernel, 128), time.Duration(r.Msg.UptimeMs) * time.Millisecond}
		return nil
	})
	return st, err
}

// clip bounds a text from the agent.
func clip(s string, n int) string { return s[:min(len(s), n)] }
