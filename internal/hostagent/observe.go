package hostagent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// call is what calls are counted by.
type call struct{ method, code string }

// buckets are the bounds of the histogram of how long calls take, in seconds.
var buckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// counts are what is known of the calls that were made.
type counts struct {
	mu      sync.Mutex
	calls   map[call]*histogram
	open    int
	refused int64 // who had no token
}

type histogram struct {
	within [len(buckets)]int64
	count  int64
	sum    float64
}

func newCounts() *counts { return &counts{calls: map[call]*histogram{}} }

// begin counts a call that begins, and gives what to call at its end.
func (c *counts) begin(method string) (end func(code string)) {
	began := time.Now()
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	return func(code string) {
		took := time.Since(began).Seconds()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
		h := c.calls[call{method, code}]
		if h == nil {
			h = &histogram{}
			c.calls[call{method, code}] = h
		}
		h.count++
		h.sum += took
		for i, bound := range buckets {
			if took <= bound {
				h.within[i]++
			}
		}
	}
}

// refuse counts who had no token.
func (c *counts) refuse() {
	c.mu.Lock()
	c.refused++
	c.mu.Unlock()
}

// writeMetrics writes what is known in the text form of Prometheus.
func (a *Agent) writeMetrics(w *bytes.Buffer, c *counts) {
	states := map[string]int{statusPending: 0, statusRunning: 0, statusPaused: 0, statusStopped: 0}
	memory, vcpus := 0, 0
	for _, s := range a.all() {
		status, err := a.status(s)
		if err != nil {
			status = "unknown"
		}
		states[status]++
		m, v, _ := s.takes()
		memory, vcpus = memory+m, vcpus+v
	}
	head := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	head("pyro_host_sandboxes", "gauge", "Sandboxes of this host, by state.")
	for _, state := range slices.Sorted(maps.Keys(states)) {
		fmt.Fprintf(w, "pyro_host_sandboxes{state=%q} %d\n", state, states[state])
	}
	head("pyro_host_promised_memory_bytes", "gauge", "Memory that the sandboxes were promised.")
	fmt.Fprintf(w, "pyro_host_promised_memory_bytes %d\n", memory<<20)
	head("pyro_host_promised_vcpus", "gauge", "Processors that the sandboxes were promised.")
	fmt.Fprintf(w, "pyro_host_promised_vcpus %d\n", vcpus)
	c.mu.Lock()
	defer c.mu.Unlock()
	head("pyro_host_refused_total", "counter", "Requests without the token.")
	fmt.Fprintf(w, "pyro_host_refused_total %d\n", c.refused)
	head("pyro_host_calls_open", "gauge", "Calls that are going on.")
	fmt.Fprintf(w, "pyro_host_calls_open %d\n", c.open)
	head("pyro_host_call_seconds", "histogram", "How long calls took, by method and code.")
	keys := slices.SortedFunc(maps.Keys(c.calls), func(x, y call) int { return cmp.Or(cmp.Compare(x.method, y.method), cmp.Compare(x.code, y.code)) })
	for _, k := range keys {
		h, labels := c.calls[k], fmt.Sprintf("method=%q,code=%q", k.method, k.code)
		for i, bound := range buckets {
			fmt.Fprintf(w, "pyro_host_call_seconds_bucket{%s,le=\"%g\"} %d\n", labels, bound, h.within[i])
		}
		fmt.Fprintf(w, "pyro_host_call_seconds_bucket{%s,le=\"+Inf\"} %d\npyro_host_call_seconds_sum{%s} %g\npyro_host_call_seconds_count{%s} %d\n",
			labels, h.count, labels, h.sum, labels, h.count)
	}
}

// observer counts calls and writes them to the log: what was called, for which sandbox, how it ended and how long it took. Of what they carry an
// error's text may name a path or a program.
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
		if err != nil {
			level = slog.LevelInfo
			attributes = append(attributes, slog.String("error", err.Error()))
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
