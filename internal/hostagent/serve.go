package hostagent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1/healthv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/prometheus"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// Limits for requests and connections.
const (
	maxMessage      = 18 << 20 // bytes: a file of maxContent bytes with its envelope.
	neverCompress   = 1 << 30  // turns off compression, which would delay files and output.
	maxStreams      = 1000     // per connection.
	streamBuffer    = 1 << 20  // bytes that a stream can receive ahead.
	sharedBuffer    = 64 << 20 // bytes that a connection can receive ahead; large, so that slow streams do not block other streams.
	headerTimeout   = 10 * time.Second
	idleTimeout     = 5 * time.Minute
	shutdownTimeout = 5 * time.Second // for calls in progress during the shutdown
)

// ServeOptions configure Serve. Either TLS or Token is required.
type ServeOptions struct {
	Listener net.Listener
	TLS      *tls.Config  // see TLSFiles. If nil, Listener must be on a loopback address.
	Token    secret.Value // bearer token of clients, used if TLS is nil.
	Metrics  net.Listener // if not nil, serves /metrics and /healthz without TLS or token.
}

// Serve serves until ctx is done or a client calls Terminate. Sandboxes that exist then keep
// running.
func (a *Agent) Serve(ctx context.Context, s ServeOptions) error {
	if s.TLS == nil && s.Token.Reveal() == "" {
		return fault.New(fault.Invalid, "serve", "", "neither TLS nor a token is set")
	}
	counts := newCounts()
	open := a.publicHandler(counts)
	main := a.handler(counts, open)
	if s.TLS == nil {
		main = authorized(s.Token, counts, main)
	}
	ended := make(chan error, 2)
	var servers []*http.Server
	start := func(l net.Listener, handler http.Handler, config *tls.Config) {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(config != nil)
		protocols.SetUnencryptedHTTP2(config == nil)
		server := &http.Server{
			Handler: handler, Protocols: &protocols, TLSConfig: config, ErrorLog: slog.NewLogLogger(a.options.Log.Handler(), slog.LevelWarn),
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: sharedBuffer, MaxReadFrameSize: 256 << 10,
			},
		}
		servers = append(servers, server)
		go func() {
			if config != nil {
				ended <- server.ServeTLS(l, "", "")
			} else {
				ended <- server.Serve(l)
			}
		}()
	}
	start(s.Listener, main, s.TLS)
	if s.Metrics != nil {
		start(s.Metrics, open, nil)
	}
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	case <-a.terminated:
	}
	a.setClosing(true) // during the shutdown, health checks report NOT_SERVING
	a.drain()
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(patient) != nil {
			server.Close()
		}
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(err, "serve", s.Listener.Addr().String())
	}
	return nil
}

// handler returns the handler of all services.
func (a *Agent) handler(counts *counts, open http.Handler) http.Handler {
	mux := http.NewServeMux()
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(neverCompress), connect.WithInterceptors(tracing.RPC{}, observer{a.options.Log, counts}, errorDetails{}), connect.WithRecover(a.recovered),
	}
	mux.Handle(hostagentv1connect.NewHostAgentServiceHandler(a, options...))
	mux.Handle(hostv1connect.NewHostServiceHandler(hostService{agent: a}, options...))
	mux.Handle(healthv1connect.NewHealthHandler(health{a}, options...))
	reflector := grpcreflect.NewStaticReflector(hostagentv1connect.HostAgentServiceName, hostv1connect.HostServiceName, healthv1connect.HealthName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	mux.Handle("/", open)
	return passive.Handler(mux)
}

// recovered logs a panic with its stack. It returns the error for the client.
func (a *Agent) recovered(ctx context.Context, spec connect.Spec, _ http.Header, panicked any) error {
	a.options.Log.ErrorContext(ctx, "a call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, errors.New("internal error of the host agent: see its log"))
}

// publicHandler serves /healthz and /metrics.
func (a *Agent) publicHandler(counts *counts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if serving, _ := a.isServing(); !serving {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", prometheus.ContentType)
		// The text is buffered, because writeMetrics holds a lock. A slow client must not prolong
		// that.
		var text bytes.Buffer
		a.writeMetrics(&text, counts)
		w.Write(text.Bytes())
	})
	return mux
}

// isServing reports whether sandboxes can be created. It also returns a channel that is closed when
// that changes.
func (a *Agent) isServing() (serving bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closing, a.closingChanged
}

// authorized rejects requests that do not have the token, except for /healthz. It compares tokens
// in constant time.
func authorized(token secret.Value, counts *counts, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token.Reveal()))
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(shown))
		if r.URL.Path == "/healthz" || ok && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		counts.refuse()
		err := connect.NewError(connect.CodeUnauthenticated, errors.New("the bearer token is missing or wrong"))
		if refuse.IsSupported(r) {
			refuse.Write(w, r, toWire(err))
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Message(), http.StatusUnauthorized)
	})
}
