package hostagent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/prometheus"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// counts counts calls, for /metrics.
type counts struct {
	calls *prometheus.Histogram

	mu      sync.Mutex
	open    int
	refused int64 // requests without a valid token
}

func newCounts() *counts {
	return &counts{calls: prometheus.NewHistogram("pyro_host_call_seconds", "Duration of calls, by method and code.", "method", "code")}
}

// begin counts the start of a call. The caller must call end with the result code when the call has
// ended.
func (c *counts) begin(method string) (end func(code string)) {
	began := time.Now()
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	return func(code string) {
		c.calls.Observe(time.Since(began), method, code)
		c.mu.Lock()
		c.open--
		c.mu.Unlock()
	}
}

// refuse counts a request without a valid token.
func (c *counts) refuse() {
	c.mu.Lock()
	c.refused++
	c.mu.Unlock()
}

// writeMetrics writes the metrics in the Prometheus text format.
func (a *Agent) writeMetrics(w *bytes.Buffer, c *counts) {
	states := map[string]int{statusPending: 0, statusRunning: 0, statusPaused: 0, statusStopped: 0}
	memory, vcpus := 0, 0
	for _, s := range a.all() {
		status, err := a.status(s)
		if err != nil {
			status = "unknown"
		}
		states[status]++
		m, v, _ := s.reserved()
		memory, vcpus = memory+m, vcpus+v
	}
	prometheus.Gauges(w, "pyro_host_sandboxes", "Sandboxes of this host, by state.", "state", states)
	prometheus.Value(w, "pyro_host_promised_memory_bytes", "gauge", "Memory reserved for sandboxes.", memory<<20)
	prometheus.Value(w, "pyro_host_promised_vcpus", "gauge", "Processors reserved for sandboxes.", vcpus)
	c.mu.Lock()
	open, refused := c.open, c.refused
	c.mu.Unlock()
	prometheus.Value(w, "pyro_host_refused_total", "counter", "Requests without the token.", refused)
	prometheus.Value(w, "pyro_host_calls_open", "gauge", "Calls in progress.", open)
	c.calls.Write(w)
}

// observer counts and logs calls. It logs the method, sandbox, code and duration. It does not log
// the content of requests, but the text of an error can contain a path or a program name.
type observer struct {
	log    *slog.Logger
	counts *counts
}

func (o observer) begin(ctx context.Context, procedure string) (end func(sandbox string, err error)) {
	method := procedure[strings.LastIndexByte(procedure, '/')+1:]
	counted := o.counts.begin(method)
	began := time.Now()
	return func(sandbox string, err error) {
		code := "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
		}
		counted(code)
		level := slog.LevelDebug
		attributes := []slog.Attr{slog.String("method", method), slog.String("code", code), slog.Float64("ms", float64(time.Since(began).Microseconds())/1000)}
		if sandbox != "" {
			attributes = append(attributes, slog.String("sandbox", sandbox[:min(len(sandbox), 64)]))
		}
		if id := tracing.ID(ctx); id != "" {
			attributes = append(attributes, slog.String("trace_id", id))
		}
		if err != nil {
			attributes = append(attributes, slog.String("error", err.Error()))
			if code != connect.CodeCanceled.String() { // for example, a client that stops watching
				level = slog.LevelInfo
			}
		}
		if code == connect.CodeInternal.String() || code == connect.CodeDataLoss.String() {
			level = slog.LevelError
		}
		o.log.LogAttrs(ctx, level, "call", attributes...)
	}
}

func (o observer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		end := o.begin(ctx, req.Spec().Procedure)
		sandbox := ""
		if m, ok := req.Any().(interface{ GetSandboxId() string }); ok {
			sandbox = m.GetSandboxId()
		}
		resp, err := next(ctx, req)
		end(sandbox, err)
		return resp, err
	}
}

func (observer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o observer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		end := o.begin(ctx, conn.Spec().Procedure)
		err := next(ctx, conn)
		end("", err)
		return err
	}
}
