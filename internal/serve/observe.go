package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/prometheus"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// observed counts requests, for /metrics.
type observed struct {
	requests *prometheus.Histogram
	open     atomic.Int64
}

func newObserved() *observed {
	return &observed{requests: prometheus.NewHistogram("pyro_http_request_seconds", "Duration of requests, by method, route and status.", "method", "route", "status")}
}

// observe calls a handler for a request. It counts the request, records its span, and logs one line
// without the content.
func (s *Server) observe(w http.ResponseWriter, r *http.Request, next http.Handler) {
	began := time.Now()
	ctx, span := tracing.Request(r.Context(), r.Header, r.Method)
	r = r.WithContext(ctx)
	answer, aborted := &answered{ResponseWriter: w}, true // aborted stays true until the handler has returned without a panic
	s.observed.open.Add(1)
	defer func() {
		s.observed.open.Add(-1)
		if r.MultipartForm != nil { // net/http does this only for the request that it made itself
			r.MultipartForm.RemoveAll()
		}
		if answer.status == 0 {
			answer.status = http.StatusOK
		}
		method, route := routeOf(r)
		status, took := strconv.Itoa(answer.status), time.Since(began)
		s.observed.requests.Observe(took, method, route, status)
		span.Name(method + " " + route)
		span.Set("http.request.method", method, "http.route", route, "http.response.status_code", status)
		if answer.status >= 500 || aborted {
			span.Fail(status)
		}
		span.End(nil)
		level := slog.LevelInfo
		if answer.status >= 500 || aborted {
			level = slog.LevelWarn
		}
		s.log.LogAttrs(ctx, level, "request", slog.String("method", method), slog.String("route", route), slog.Int("status", answer.status),
			slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("trace_id", tracing.ID(ctx)))
	}()
	next.ServeHTTP(answer, r)
	aborted = false
}

// unknownRoute is the route of requests that were refused before the server looked at their path.
const unknownRoute = "unknown"

// routeOf returns the method and the route of a request that was answered. The set of possible
// values is fixed, so that clients can't create new metrics.
func routeOf(r *http.Request) (method, route string) {
	_, route, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		route = r.Pattern
	}
	if route == "" {
		route = unknownRoute
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method, route
	}
	return "other", route
}

// answered records the status of an answer. http.ResponseController finds the methods of the
// original writer with Unwrap.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	if a.status == 0 || a.status < 200 && a.status != http.StatusSwitchingProtocols {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (a *answered) Flush() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap returns the original writer.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// bindMetrics serves /metrics to clients that send the token. If token is empty, it does nothing.
func (s *Server) bindMetrics(token secret.Value) {
	if token.Reveal() == "" {
		return
	}
	want := sha256.Sum256([]byte(token.Reveal()))
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(shown))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, refusal(http.StatusUnauthorized, "the token for metrics is missing or wrong", "send it as Authorization: Bearer TOKEN"))
			return
		}
		var text bytes.Buffer
		if err := s.control.WriteMetrics(r.Context(), &text); err != nil {
			writeError(w, newError(fault.Wrap(err, "read metrics", "")))
			return
		}
		prometheus.Value(&text, "pyro_http_requests_open", "gauge", "Requests in progress.", s.observed.open.Load())
		s.observed.requests.Write(&text)
		prometheus.Process(&text)
		w.Header().Set("Content-Type", prometheus.ContentType)
		w.Write(text.Bytes())
	})
}
