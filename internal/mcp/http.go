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
	// MaxBody is the maximum size of a request, in bytes. A file of 16 MiB fits into a request,
	// although JSON makes it larger.
	MaxBody = 34 << 20
	// maxRequests is the maximum number of concurrent requests, including open streams.
	maxRequests = 256
	// maxSessions is the maximum number of sessions. Only older protocol versions have sessions.
	maxSessions = 1000
	// sessionTimeout is the maximum time that a session can be idle.
	sessionTimeout = time.Hour
	// statelessSince is the first protocol version without sessions.
	statelessSince = "2026-07-28"
)

// Handler serves clients over streamable HTTP. Protocol version 2026-07-28 and later versions are
// stateless. Earlier versions use sessions. Clients must send the bearer token, which Handler
// compares in constant time. Handler also rejects requests from web pages of other origins and, on
// loopback addresses, requests with a foreign Host header.
func (s *Server) Handler(token secret.Value) http.Handler {
	noUser := func(*http.Request) string { return "" }
	return sameOrigin(requireToken(token, s.handler(maxRequests, maxSessions, false, noUser)))
}

// Limits of a GroupHandler.
const (
	groupRequests = 128
	groupSessions = 200
)

// GroupHandler is like Handler, for a group of clients that the caller has authenticated. It serves
// at most groupRequests concurrent requests and groupSessions sessions. The function user names the
// client of a request, and only this client can use its sessions. The context of a call has the
// values of the context of its request. GroupHandler does not check the headers Origin and Host, so
// the caller must not authenticate clients by cookies.
func (s *Server) GroupHandler(user func(*http.Request) string) http.Handler {
	return s.handler(groupRequests, groupSessions, true, user)
}

// handler serves clients of both kinds of protocol versions. anyHost allows every Host header.
func (s *Server) handler(requests, mostSessions int, anyHost bool, user func(*http.Request) string) http.Handler {
	get := func(*http.Request) *sdk.Server { return s.sdk }
	stateless := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: MaxBody, DisableLocalhostProtection: anyHost})
	sessions := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{SessionTimeout: sessionTimeout, MaxRequestBodyBytes: MaxBody, DisableLocalhostProtection: anyHost})
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Protocol-Version") >= statelessSince:
			stateless.ServeHTTP(w, r)
		case r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && s.Sessions() >= mostSessions:
			busy(w, "too many sessions")
		default:
			sessions.ServeHTTP(w, r)
		}
	})
	return limitRequests(requests, withRequest(user, jsonErrors(s.started, both)))
}

// Sessions returns the number of sessions.
func (s *Server) Sessions() (n int) {
	for range s.sdk.Sessions() {
		n++
	}
	return n
}

// started reports whether a session has been initialized. It returns true for an unknown session,
// because the SDK refuses such sessions itself.
func (s *Server) started(id string) bool {
	for session := range s.sdk.Sessions() {
		if session.ID() == id {
			return session.InitializeParams() != nil
		}
	}
	return id != ""
}

// sameOrigin rejects cross-origin requests from browsers, including GET requests.
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

// requireToken rejects requests without the bearer token.
func requireToken(token secret.Value, next http.Handler) http.Handler {
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

// limitRequests limits the number of concurrent requests and rejects all further ones.
func limitRequests(most int, next http.Handler) http.Handler {
	slots := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			busy(w, "too many concurrent requests")
		}
	})
}

func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// requestContext is the key under which the SDK's token info contains the context of an HTTP
// request.
const requestContext = "context"

// withRequest makes the context of an HTTP request available to the call. The SDK detaches calls
// from requests, so that clients can resume calls. This server does not store results, so a call
// must end when its client disconnects. The token info is the only request data that the SDK passes
// to the call. The function user names the client, to which the SDK binds sessions.
func withRequest(user func(*http.Request) string, next http.Handler) http.Handler {
	require := auth.RequireBearerToken(func(ctx context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: user(r), Extra: map[string]any{requestContext: ctx}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer none") // the client is authenticated, perhaps in another way
		require.ServeHTTP(w, r)
	})
}

// callContext is the context of a call, with the values of the context of its request.
type callContext struct {
	context.Context
	request context.Context
}

func (c callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.request.Value(key)
}

// untilDisconnect returns a context for a call. The context is canceled when the client
// disconnects. The caller must call release at the end of the call.
func untilDisconnect(ctx context.Context, r *sdk.CallToolRequest) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	if r.Extra == nil || r.Extra.TokenInfo == nil {
		return ctx, cancel
	}
	request := r.Extra.TokenInfo.Extra[requestContext].(context.Context)
	stop := context.AfterFunc(request, cancel)
	return callContext{ctx, request}, func() {
		stop()
		cancel()
	}
}
