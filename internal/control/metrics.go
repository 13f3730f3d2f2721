package control

import (
	"bytes"
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/prometheus"
)

// The metrics of all control planes of this process.
var (
	callSeconds   = prometheus.NewHistogram("pyro_rpc_seconds", "Duration of calls to hosts, by method and code; for a stream, the time until it is open.", "method", "code")
	createSeconds = prometheus.NewHistogram("pyro_create_seconds", "Duration of creations of sandboxes, by result: ok, or the kind of the error.", "result")
)

// WriteMetrics writes the metrics of the control plane in the Prometheus text format.
func (c *Control) WriteMetrics(ctx context.Context, w *bytes.Buffer) error {
	all, err := c.store.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, status := range []string{statusRunning, statusPaused} {
		all[status] += 0
	}
	prometheus.Gauges(w, "pyro_sandboxes", "Sandboxes of all teams, by status.", "status", all)
	callSeconds.Write(w)
	createSeconds.Write(w)
	return nil
}

func countCreation(began time.Time, err error) {
	result := "ok"
	if err != nil {
		result = string(fault.KindOf(err))
	}
	createSeconds.Observe(time.Since(began), result)
}

// counter is an interceptor that counts calls.
type counter struct{}

func count(began time.Time, spec connect.Spec, err error) {
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	callSeconds.Observe(time.Since(began), spec.Procedure[strings.LastIndexByte(spec.Procedure, '/')+1:], code)
}

// WrapUnary implements connect.Interceptor.
func (counter) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		began := time.Now()
		r, err := next(ctx, req)
		count(began, req.Spec(), err)
		return r, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (counter) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		began := time.Now()
		conn := next(ctx, spec)
		count(began, spec, nil)
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (counter) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
