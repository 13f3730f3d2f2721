// Package agent runs inside a machine and serves its supervisor over the machine's link. The agent
// starts processes, buffers their output, and serves files (internal/agent/volume).
//
// The same code runs in a guest and on the host. In a guest, processes run in their own namespaces
// and cgroups (internal/agent/guest). On the host they are plain processes (host_compat). An
// [ExecEnv] starts and kills processes. The guest and the host have different implementations of
// it; they share all other code.
//
// The agent implements the agent.v1 service (proto/agent/v1) as Connect over HTTP/2 on a link
// (internal/agent/link). The machine's processor can be emulated. An emulator translates each code
// path when it first runs, so the agent prefers simple code to general libraries.
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

// Limits of requests and buffers, in bytes unless a comment gives another unit.
const (
	maxMessage     = 5 << 20 // an ExecRequest with 4 MiB of arguments, plus the other fields
	maxArguments   = 4 << 20
	maxMessageText = 1 << 10
	maxPath        = 4096
	maxID          = 64
	maxStreams     = 4 * maxExecs // concurrent calls: one each of Follow, Ack, Input and Signal per exec
	maxExecs       = 256
	maxReleases    = 64        // IDs in one ExecRequest
	maxChunk       = 256 << 10 // output or input bytes in one message
	ringSize       = 1 << 20
	heldPatience   = 100 * time.Millisecond // how long to wait for processes that do not close their output; see Exit.output_held in program.proto.
	killedPatience = 2 * time.Second        // the same, after the time limit of the exec has killed the processes.
	maxFrame       = 1 << 20                // HTTP/2 frame.
	streamWindow   = 4 << 20                // HTTP/2 flow-control window of one call.
	connWindow     = 64 << 20               // window of all calls together; large, so that an unread call does not block others.
)

// Server is the agent.
type Server struct {
	env     ExecEnv
	version string
	began   time.Time
	execs   execs

	watches       atomic.Int32  // running calls of WatchFolders
	watchInterval time.Duration // the shortest time between two messages of such a call

	buffer      SharedBuffer // nil if the machine has none
	bufferInUse sync.Mutex   // locked while a transfer uses buffer

	freezing sync.Mutex
	held     bool        // Hold has stopped all processes
	timeout  *time.Timer // resumes the processes after the time limit of Hold; nil without a limit
	frozen   *freeze     // nil if nothing is frozen
}

// SharedBuffer is memory that the machine shares with its supervisor (internal/agent/sharedbuffer).
type SharedBuffer interface {
	io.ReaderAt
	io.WriterAt
}

// Share allows calls to transfer file content through b. A call must ask for it. Call Share before
// Serve.
func (s *Server) Share(b SharedBuffer) { s.buffer = b }

// New returns an agent that runs processes in env.
func New(env ExecEnv, version string) *Server {
	return &Server{env: env, version: version, began: time.Now(), execs: newExecs(), watchInterval: watchInterval}
}

// sessionKey is the context key of the session of a request.
type sessionKey struct{}

// session is one session of the link. In each session, the agent runs processes only after a
// successful Renew. A restore always begins a new session, so a restored machine gets its own clock
// and entropy before it runs a process.
type session struct {
	renewed atomic.Bool
	once    sync.Once
	over    chan struct{} // closed at the end of the session
}

func newSession() *session { return &session{over: make(chan struct{})} }

func (s *session) end() { s.once.Do(func() { close(s.over) }) }

// sessions is a listener that adds a session to each connection.
type sessions struct{ net.Listener }

func (l sessions) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sessionConn{conn, newSession()}, nil
}

// sessionConn ends its session when the server closes the connection.
type sessionConn struct {
	net.Conn
	session *session
}

func (c *sessionConn) Close() error {
	c.session.end()
	return c.Conn.Close()
}

// Serve serves the sessions of a stream, one after the other, until the stream fails. It returns
// the error of the stream. Processes keep running.
func (s *Server) Serve(stream net.Conn) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewAgentServiceHandler(s,
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(1<<30), connect.WithInterceptors(gate{})))
	mux.HandleFunc(filePath, s.serve(s.file))
	mux.HandleFunc(dialPath, s.serve(s.connectPort))
	mux.HandleFunc(listPath, s.serveIn(s.list))
	mux.HandleFunc(folderPath, s.serveIn(s.makeFolder))
	mux.HandleFunc(renamePath, s.serveIn(s.rename))
	mux.HandleFunc(treePath, s.serve(s.tree))
	for path, serve := range s.volumePaths() {
		mux.HandleFunc(path, serve)
	}
	server := &http.Server{
		Handler:   mux,
		ErrorLog:  log.New(io.Discard, "", 0), // the console must not show errors of broken sessions
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: connWindow, MaxReceiveBufferPerStream: streamWindow,
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

// gate is an interceptor. In a session without a successful Renew, it rejects all calls except
// Status and Renew.
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

// Status returns the agent's version, the kernel release and the agent's uptime.
func (s *Server) Status(ctx context.Context, _ *connect.Request[agentv1.StatusRequest]) (*connect.Response[agentv1.StatusResponse], error) {
	return connect.NewResponse(&agentv1.StatusResponse{
		Version: s.version, Renewed: sessionOf(ctx).renewed.Load(), Kernel: kernelRelease(), UptimeMs: time.Since(s.began).Milliseconds(),
	}), nil
}

// Renew sets the clock, entropy, identity and network of the machine. If Renew fails, the session
// stays unrenewed.
func (s *Server) Renew(ctx context.Context, req *connect.Request[agentv1.RenewRequest]) (*connect.Response[agentv1.RenewResponse], error) {
	m := req.Msg
	if len(m.Entropy) < 32 || len(m.Entropy) > 512 || !validMachineID(m.MachineId) || !validHostname(m.Hostname) || m.UnixNanos <= 0 {
		return nil, invalid("invalid entropy, machine ID, host name or time")
	}
	if m.Network != nil {
		if _, err := LinkOf(m.Network); err != nil {
			return nil, invalid("invalid network: " + err.Error())
		}
	}
	if err := s.env.Renew(m); err != nil {
		code := connect.CodeInternal
		if errors.Is(err, errors.ErrUnsupported) {
			code = connect.CodeUnimplemented
		}
		return nil, connect.NewError(code, err)
	}
	resume := s.releaseProcesses
	if m.Held {
		resume = s.holdUntilThaw
	}
	if err := resume(); err != nil {
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

// invalid returns an error of code InvalidArgument.
func invalid(text string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(text))
}
