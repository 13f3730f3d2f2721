package daemon

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/gen/supervisor/v1/supervisorv1connect"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Bounds of what a client may send and have at once. Clients are the same user's; these keep a mistake from taking the machine's host along.
const (
	maxMessage = 9 << 20 // arguments and environment
	maxStreams = 512
)

// server serves the machine on the socket.
type server struct {
	daemon   *daemon
	http     *http.Server
	listener net.Listener
	done     chan struct{}
	over     chan struct{} // closed when no operation goes on any more, for followers of the history

	mu      sync.Mutex
	refused error          // why no operation begins any more
	calls   sync.WaitGroup // operations that are going on
	brief   int            // of them those that nothing has to be waited for
}

// serve opens the socket and begins to serve.
func (d *daemon) serve() (*server, error) {
	listener, err := remote.Listen(d.folder)
	if err != nil {
		return nil, err
	}
	s := &server{daemon: d, listener: listener, done: make(chan struct{}), over: make(chan struct{})}
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

// protocols are those that it speaks: HTTP/1.1 is for what is read of files.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// begin lets an operation begin, unless the machine is being stopped, and gives what to call at its end. Nothing begins before whoever started the supervisor
// has let it go: until then it would end with them.
func (s *server) begin(ctx context.Context) (end func(), err error) {
	if err := s.daemon.released(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil {
		return nil, fault.Wrap(s.refused, "use workspace", s.daemon.order.Workspace.ID)
	}
	s.calls.Add(1)
	s.brief++
	active := s.daemon.activity.begin()
	return func() {
		s.mu.Lock()
		s.brief--
		s.mu.Unlock()
		active()
		s.calls.Done()
	}, nil
}

// beginLong lets an operation begin that may take for ever. Nobody waits for it.
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
	errPausing  = fault.Newf(fault.Unavailable, "it is being paused").WithHint("try again: what is done next with it has it go on")
)

// refuse lets no operation begin any more, for a reason; nil lets them again.
func (s *server) refuse(why error) {
	s.mu.Lock()
	s.refused = why
	s.mu.Unlock()
}

// drain waits for the operations that are going on and don't wait for anything themselves.
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
	// closePatience is how long operations may take to end.
	closePatience = 5 * time.Second
	// answerPatience is how long their answers may take to get through. A client that says nothing would be waited for as long.
	answerPatience = 200 * time.Millisecond
)

// close lets the operations end and closes the socket.
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

// Status tells what the supervisor is, once it goes on by itself.
func (s *server) Status(ctx context.Context, _ *connect.Request[supervisorv1.StatusRequest]) (*connect.Response[supervisorv1.StatusResponse], error) {
	d := s.daemon
	if err := d.released(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	if refused != nil {
		return nil, fault.New(fault.Unavailable, "use workspace", d.order.Workspace.ID, "%w", refused)
	}
	last, expires := d.activity.times()
	r := &supervisorv1.StatusResponse{
		Version: d.version, Pid: int32(pid()), MachinePid: int32(d.machine.PID()),
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
	case <-s.daemon.settled:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.daemon.settleErr; err != nil {
		return nil, err
	}
	return connect.NewResponse(&supervisorv1.StopResponse{}), nil
}

// errorDetails has errors keep their kind and hint on the way, and show no secret.
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

var errNoStart = errors.New("the first message says nothing of a command")
