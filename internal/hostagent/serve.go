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
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Bounds of what clients may send and have at once.
const (
	maxMessage     = 18 << 20 // a file of maxContent, and what is around it
	neverCompress  = 1 << 30  // answers are not compressed, whatever a client takes: files and output would wait for that
	maxStreams     = 1000     // on one connection
	streamBuffer   = 1 << 20  // that a stream may send before it is read
	sharedBuffer   = 64 << 20 // that a connection may: many slow streams leave room for others
	headerPatience = 10 * time.Second
	idlePatience   = 5 * time.Minute
	endPatience    = 5 * time.Second // that calls have to come to their end
)

// Serving says how a host agent is reached. Either TLS or Token has to be set.
type Serving struct {
	Listener net.Listener
	TLS      *tls.Config  // see TLSFiles; nil: Listener is on a loopback address, and clients show Token
	Token    secret.Value // that clients show as a bearer
	Metrics  net.Listener // where /metrics and /healthz are served plainly, too; nil: nowhere
}

// Serve serves a until ctx ends or a client has it terminated. Sandboxes go on.
func (a *Agent) Serve(ctx context.Context, s Serving) error {
	if s.TLS == nil && s.Token.Reveal() == "" {
		return fault.New(fault.Invalid, "serve", "", "there is neither TLS nor a token")
	}
	counts := newCounts()
	open := a.openHandler(counts)
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
			ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: 64 << 10,
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
	a.refuse(true) // who asks for its health while calls come to their end is told
	a.leave()
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
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

// handler serves everything.
func (a *Agent) handler(counts *counts, open http.Handler) http.Handler {
	mux := http.NewServeMux()
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(neverCompress), connect.WithInterceptors(observer{a.options.Log, counts}, errorDetails{}), connect.WithRecover(a.recovered),
	}
	mux.Handle(hostagentv1connect.NewHostAgentServiceHandler(a, options...))
	mux.Handle(healthv1connect.NewHealthHandler(health{a}, options...))
	reflector := grpcreflect.NewStaticReflector(hostagentv1connect.HostAgentServiceName, healthv1connect.HealthName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	mux.Handle("/", open)
	return mux
}

// recovered is what a client is told of a fault of pyro's own, of which the log has all.
func (a *Agent) recovered(ctx context.Context, spec connect.Spec, _ http.Header, panicked any) error {
	a.options.Log.ErrorContext(ctx, "a call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, errors.New("a fault of the host agent's own: its log tells of it"))
}

// openHandler serves what programs that only look want to know.
func (a *Agent) openHandler(counts *counts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.serving() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var text bytes.Buffer // nobody who reads slowly holds what calls are counted by
		a.writeMetrics(&text, counts)
		w.Write(text.Bytes())
	})
	return mux
}

// serving tells whether sandboxes can be made and used.
func (a *Agent) serving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.refused
}

// authorized refuses who does not show the token, in constant time. Whether the host agent is there may be known to all.
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
