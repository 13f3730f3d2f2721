package preview

import (
	"context"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"
)

// Bounds of connections to guests.
const (
	idleConns     = 64
	idleConnsEach = 4 // of one port
	idleTime      = 15 * time.Second
	maxHeader     = 1 << 20 // bytes of the headers of an answer
	copyBuffer    = 32 << 10
)

// newTransport returns a transport whose connections go to ports of sandboxes.
func (h *Handler) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			v := visitOf(ctx)
			return h.Control.DialPort(ctx, v.visitor.Actor, v.port.ID, v.port.Number)
		},
		MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConnsEach, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // the client gets what the guest sent
	}
}

// finalAnswers is a transport that hides informational answers, such as 103 Early Hints, from the
// proxy. The proxy would send them to the browser without ModifyResponse, and then remove all
// headers that pyro has set.
type finalAnswers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t finalAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.Got1xxResponse = nil
	}
	return t.RoundTripper.RoundTrip(r)
}

func (h *Handler) newProxy() http.Handler {
	return &httputil.ReverseProxy{
		Transport: finalAnswers{h.transport}, FlushInterval: -1, BufferPool: &buffers{}, ErrorLog: discard,
		Rewrite: func(r *httputil.ProxyRequest) {
			v := visitOf(r.In.Context())
			// The transport reuses connections to the same host.
			r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort(v.port.ID, strconv.Itoa(v.port.Number))
			r.Out.Host = r.In.Host // frameworks compare it with the browser's Origin
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			cleanRequest(r.Out)
			if v.hasSession {
				r.Out.Header.Del("Authorization")
			}
			if h.Proxied(r.In) {
				r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			} else {
				r.Out.Header.Del("X-Real-Ip")
			}
			r.SetXForwarded()
			if h.Secure(r.In) {
				r.Out.Header.Set("X-Forwarded-Proto", "https")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			v := visitOf(r.Request.Context())
			cleanResponse(r.Header, v.port.Host())
			if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "text/event-stream" {
				h.streams.add(r.Request.Context(), v.end)
			}
			return nil
		},
		ErrorHandler: h.failWith,
	}
}

// buffers is a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return p[:]
	}
	return make([]byte, copyBuffer)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[copyBuffer]byte)(p)) }
