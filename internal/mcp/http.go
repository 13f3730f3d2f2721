package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/secret"
)

const (
	// MaxBody bounds a request, in bytes: a file of 16 MiB as JSON is not much more.
	MaxBody = 34 << 20
	// maxRequests bounds those that are served at once, the streams that clients hold open among them.
	maxRequests = 256
	// maxSessions bounds the clients of the older protocol that are remembered.
	maxSessions = 1000
	// sessionPatience is how long such a client may be silent before its session is forgotten.
	sessionPatience = time.Hour
	// statelessSince is the protocol version that knows no sessions.
	statelessSince = "2026-07-28"
)

// Handler serves clients over streamable HTTP: those of protocol 2026-07-28, each request by itself, and those of the older ones, by sessions. Who does not show the
// token, in constant time, is refused; so are pages of other origins and, on a loopback address, requests for another host.
func (s *Server) Handler(token secret.Value) http.Handler {
	get := func(*http.Request) *sdk.Server { return s.sdk }
	stateless := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: MaxBody})
	sessions := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{SessionTimeout: sessionPatience, MaxRequestBodyBytes: MaxBody})
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Protocol-Version") >= statelessSince:
			stateless.ServeHTTP(w, r)
		case r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && s.clients() >= maxSessions:
			busy(w, "there are too many sessions")
		default:
			sessions.ServeHTTP(w, r)
		}
	})
	return sameOrigin(authorized(token, bounded(maxRequests, withRequest(inMessages(s.started, both)))))
}

// clients counts those that are connected.
func (s *Server) clients() (n int) {
	for range s.sdk.Sessions() {
		n++
	}
	return n
}

// started tells whether a session has been initialized. One that is not known has been: the SDK refuses it.
func (s *Server) started(id string) bool {
	for session := range s.sdk.Sessions() {
		if session.ID() == id {
			return session.InitializeParams() != nil
		}
	}
	return id != ""
}

// sameOrigin refuses what a page of another origin asks for, be it only to read.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as := r.WithContext(r.Context())
		as.Method = http.MethodPost
		if err := protection.Check(as); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorized lets those through who show the token.
func authorized(token secret.Value, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(shown))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 || !strings.EqualFold(scheme, "bearer") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pyro"`)
			http.Error(w, "the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded serves at most so many requests at once.
func bounded(most int, next http.Handler) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			busy(w, "there are too many requests at once")
		}
	})
}

func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// requestContext is where a call has the context of its HTTP request.
const requestContext = "context"

// withRequest gives calls the context of their HTTP request, from which the SDK cuts them off: a client may come back for results that were kept for it. Here none are,
// and so a call ends when its client goes. What a request says of its token is all that the SDK hands on.
func withRequest(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{Extra: map[string]any{requestContext: ctx}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// untilGone is a call's context, that ends when its client has gone. release is for the end of the call.
func untilGone(ctx context.Context, r *sdk.CallToolRequest) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	if r.Extra == nil || r.Extra.TokenInfo == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(r.Extra.TokenInfo.Extra[requestContext].(context.Context), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
