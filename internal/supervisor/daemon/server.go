package daemon

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/gen/supervisor/v1/supervisorv1connect"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Limits for clients. All clients belong to the same user, so the limits protect the host only from
// mistakes.
const (
	maxMessage = 9 << 20 // bytes, mostly of arguments and environment
	maxStreams = 512
)

// server serves the machine on the supervisor's socket.
type server struct {
	daemon   *daemon
	http     *http.Server
	listener net.Listener
	done     chan struct{}
	over     chan struct{} // closed when all operations have ended; ends the followers of the history

	mu      sync.Mutex
	refused error          // why new operations are refused; nil: they are accepted
	calls   sync.WaitGroup // the running operations
	brief   int            // number of running short operations

	accepting context.Context // is done while new operations are refused; ends the watches of folders
	endAccept context.CancelCauseFunc
}

// serve opens the socket and starts serving.
func (d *daemon) serve() (*server, error) {
	listener, err := remote.Listen(d.folder)
	if err != nil {
		return nil, err
	}
	s := &server{daemon: d, listener: listener, done: make(chan struct{}), over: make(chan struct{})}
	s.refuse(nil)
	mux := http.NewServeMux()
	mux.Handle(supervisorv1connect.NewSupervisorServiceHandler(s,
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(1<<30), connect.WithInterceptors(errorDetails{d.secrets})))
	s.handleFiles(mux)
	s.http = &http.Server{
		Handler: mux, Protocols: protocols(), ErrorLog: log.New(io.Discard, "", 0),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: remote.SharedBuffer, MaxReceiveBufferPerStream: remote.ReceiveBuffer,
			MaxReadFrameSize: remote.MaxFrame,
		},
	}
	go func() {
		defer close(s.done)
		s.http.Serve(listener)
	}()
	return s, nil
}

// protocols returns the protocols that the server speaks. Clients read files over HTTP/1.1.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// begin registers a short operation. The caller must call the function end when the operation has
// ended. begin fails if the machine is being paused or stopped. It waits until the starter has
// acknowledged the start, because until then the supervisor can still end with its starter.
func (s *server) begin(ctx context.Context) (end func(), err error) {
	if err := s.daemon.released(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil {
		return nil, fault.Wrap(s.refused, "use workspace", s.daemon.config.Workspace.ID)
	}
	s.calls.Add(1)
	s.brief++
	unused := s.daemon.activity.begin()
	return func() {
		s.mu.Lock()
		s.brief--
		s.mu.Unlock()
		unused()
		s.calls.Done()
	}, nil
}

// beginLong registers an operation that can take long. A pause does not wait for it.
func (s *server) beginLong(ctx context.Context) (func(), error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief--
	return func() {
		s.mu.Lock()
		s.brief++
		s.mu.Unlock()
		end()
	}, nil
}

var (
	errStopping = fault.Newf(fault.Precondition, "it is being stopped")
	errPausing  = fault.Newf(fault.Unavailable, "it is being paused").WithHint("try again: the next operation resumes it")
)

// refuse makes new operations fail with the given error, and ends the watches of folders with it.
// If the error is nil, new operations are accepted again.
func (s *server) refuse(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = why
	if why != nil {
		s.endAccept(why)
	} else if s.accepting == nil || s.accepting.Err() != nil {
		s.accepting, s.endAccept = context.WithCancelCause(context.Background())
	}
}

// drain waits until all short operations have ended, at most closePatience.
func (s *server) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	for {
		s.mu.Lock()
		brief := s.brief
		s.mu.Unlock()
		if brief <= 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

const (
	// closePatience is how long the server waits for operations to end.
	closePatience = 5 * time.Second
	// answerPatience is how long the server waits until clients have received their answers.
	answerPatience = 200 * time.Millisecond
)

// close waits until operations have ended, and closes the socket.
func (s *server) close() {
	s.refuse(errStopping)
	ended := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closePatience):
	}
	close(s.over)
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.done
	<-ended
}

// Status describes the supervisor. It waits until the starter has acknowledged the start.
func (s *server) Status(ctx context.Context, _ *connect.Request[supervisorv1.StatusRequest]) (*connect.Response[supervisorv1.StatusResponse], error) {
	d := s.daemon
	if err := d.released(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	if refused != nil {
		return nil, fault.New(fault.Unavailable, "use workspace", d.config.Workspace.ID, "%w", refused)
	}
	last, expires := d.activity.times()
	r := &supervisorv1.StatusResponse{
		Version: d.version, Pid: int32(os.Getpid()), MachinePid: int32(d.machine.PID()),
		StartedUnixNanos: d.started.UnixNano(), LastActivityUnixNanos: last.UnixNano(),
	}
	if !expires.IsZero() {
		r.ExpiresUnixNanos = expires.UnixNano()
	}
	if err := d.machine.Limits(); err != nil {
		r.UnlimitedReason = err.Error()
	}
	return connect.NewResponse(r), nil
}

// Stop stops the machine.
func (s *server) Stop(ctx context.Context, req *connect.Request[supervisorv1.StopRequest]) (*connect.Response[supervisorv1.StopResponse], error) {
	s.daemon.stop(end{reason: fault.Printable(req.Msg.Reason), discard: req.Msg.Discard})
	select {
	case <-s.daemon.flushed:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.daemon.flushErr; err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.StopResponse{}), nil
}

// errorDetails adds the kind and the hint to errors, and redacts secrets in them.
type errorDetails struct{ secrets secrets }

func (e errorDetails) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		return resp, remote.ToWire(e.secrets.error(err))
	}
}

func (errorDetails) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (e errorDetails) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return remote.ToWire(e.secrets.error(next(ctx, conn)))
	}
}
