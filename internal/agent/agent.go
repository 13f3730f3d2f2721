// Package agent runs inside a machine and acts there for the supervisor at the other end of the
// machine's link: it starts processes, keeps their output, and serves files (internal/agent/volume).
//
// The same code serves a guest, where processes run in namespaces and cgroups of their own (internal/agent/guest), and the host, where there is nothing but
// processes (host_compat). How a process is started and killed is a [Place]; everything else is written once.
//
// It is the agent.v1 service (proto/agent/v1), as Connect over HTTP/2 on a link (internal/agent/link). It runs on an emulated processor, where each code
// path costs its translation the first time: what can be done with little code is.
package agent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
)

// Bounds of what the host may send and of what is kept.
const (
	maxMessage     = 5 << 20 // an ExecRequest with 4 MiB of arguments
	maxArguments   = 4 << 20
	maxMessageText = 1 << 10
	maxPath        = 4096
	maxID          = 64
	maxStreams     = 4 * maxExecs // calls at once: each exec is followed, acknowledged, fed and signalled
	maxExecs       = 256
	maxReleases    = 64        // in one ExecRequest
	maxChunk       = 256 << 10 // of output or input in one message
	maxFileChunk   = 1 << 20
	ringSize       = 1 << 20
	heldPatience   = 100 * time.Millisecond // see Exit in the proto
	killedPatience = 2 * time.Second        // after a time limit: the killed processes may need a moment to end
	maxFrame       = 1 << 20                // of HTTP/2
	receiveBuffer  = 4 << 20                // of what a call has sent and nobody has taken
	sharedBuffer   = 64 << 20               // of all calls: one that is not taken holds up no other
)

// Server is the agent.
type Server struct {
	place   Place
	version string
	began   time.Time
	execs   execs

	window      Window // nil: there is none
	windowInUse sync.Mutex

	freezing sync.Mutex
	held     bool        // no process runs
	limit    *time.Timer // ends that; nil: nothing does but who holds them
	frozen   *freeze     // nil: nothing is
}

// Window is memory that the machine and its owner share (internal/agent/window).
type Window interface {
	io.ReaderAt
	io.WriterAt
}

// Share has the content of files go through a window, where a caller asks for that. It must be called before Serve.
func (s *Server) Share(w Window) { s.window = w }

// New makes an agent that works in a place.
func New(place Place, version string) *Server {
	return &Server{place: place, version: version, began: time.Now(), execs: newExecs()}
}

// sessionKey is the context key of the session that a request came by.
type sessionKey struct{}

// session is one link session. It begins unrenewed: after a restore there is always a new session, so nothing runs in a restored machine before it has been
// given its own clock and random pool.
type session struct {
	renewed atomic.Bool
	once    sync.Once
	over    chan struct{} // closed when it is
}

func newSession() *session { return &session{over: make(chan struct{})} }

func (s *session) end() { s.once.Do(func() { close(s.over) }) }

// sessions gives each session of a link its state.
type sessions struct{ net.Listener }

func (l sessions) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sessionConn{conn, newSession()}, nil
}

// sessionConn is the connection of a session, which is over when the server is done with it.
type sessionConn struct {
	net.Conn
	session *session
}

func (c *sessionConn) Close() error {
	c.session.end()
	return c.Conn.Close()
}

// Serve serves the sessions of a stream, one after the other, until the stream fails, and gives that error. The processes go on.
func (s *Server) Serve(stream net.Conn) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewAgentServiceHandler(s,
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(1<<30), connect.WithInterceptors(gate{})))
	mux.HandleFunc(filePath, s.files)
	mux.HandleFunc(listPath, s.serveIn(s.list))
	mux.HandleFunc(folderPath, s.serveIn(s.makeFolder))
	for path, serve := range s.volumePaths() {
		mux.HandleFunc(path, serve)
	}
	server := &http.Server{
		Handler:   mux,
		ErrorLog:  log.New(io.Discard, "", 0), // a session that breaks is not worth a line on a machine's console
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: sharedBuffer, MaxReceiveBufferPerStream: receiveBuffer,
			MaxConcurrentStreams: maxStreams,
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, sessionKey{}, conn.(*sessionConn).session)
		},
	}
	defer server.Close()
	return server.Serve(sessions{link.Listen(stream)})
}

func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	if s == nil {
		return newSession()
	}
	return s
}

var errNotRenewed = errors.New("the machine has not been renewed in this session")

// gate refuses everything but Status and Renew until the session is renewed.
type gate struct{}

func (gate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		switch req.Spec().Procedure {
		case agentv1connect.AgentServiceStatusProcedure, agentv1connect.AgentServiceRenewProcedure:
		default:
			if !sessionOf(ctx).renewed.Load() {
				return nil, connect.NewError(connect.CodeFailedPrecondition, errNotRenewed)
			}
		}
		return next(ctx, req)
	}
}

func (gate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (gate) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if !sessionOf(ctx).renewed.Load() {
			return connect.NewError(connect.CodeFailedPrecondition, errNotRenewed)
		}
		return next(ctx, conn)
	}
}

// Status tells what the agent is.
func (s *Server) Status(ctx context.Context, _ *connect.Request[agentv1.StatusRequest]) (*connect.Response[agentv1.StatusResponse], error) {
	return connect.NewResponse(&agentv1.StatusResponse{
		Version: s.version, Renewed: sessionOf(ctx).renewed.Load(), Kernel: kernelRelease(), UptimeMs: time.Since(s.began).Milliseconds(),
	}), nil
}

// Renew makes the machine its own. It fails closed: the session stays unrenewed.
func (s *Server) Renew(ctx context.Context, req *connect.Request[agentv1.RenewRequest]) (*connect.Response[agentv1.RenewResponse], error) {
	m := req.Msg
	if len(m.Entropy) < 32 || len(m.Entropy) > 512 || !validMachineID(m.MachineId) || !validHostname(m.Hostname) || m.UnixNanos <= 0 {
		return nil, invalid("unusable identity")
	}
	if m.Network != nil {
		if _, err := LinkOf(m.Network); err != nil {
			return nil, invalid("unusable network: " + err.Error())
		}
	}
	if err := s.place.Renew(m); err != nil {
		code := connect.CodeInternal
		if errors.Is(err, errors.ErrUnsupported) {
			code = connect.CodeUnimplemented
		}
		return nil, connect.NewError(code, err)
	}
	awake := s.awake
	if m.Held {
		awake = s.stay
	}
	if err := awake(); err != nil {
		return nil, connect.NewError(connect.CodeInternal, err)
	}
	sessionOf(ctx).renewed.Store(true)
	return connect.NewResponse(&agentv1.RenewResponse{UnixNanos: time.Now().UnixNano()}), nil
}

func validMachineID(id string) bool {
	if len(id) != 32 {
		return false
	}
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func validHostname(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (c != '-' || i == 0 || i == len(name)-1) {
			return false
		}
	}
	return true
}

// invalid is the error for a request that can't be right.
func invalid(text string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(text))
}
