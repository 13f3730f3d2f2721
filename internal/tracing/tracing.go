// Package tracing records OpenTelemetry traces and sends them to a collector.
//
// Nothing is recorded until a program calls [Start] with the standard variables of OpenTelemetry in
// its environment. Requests have a trace ID all the same, for the log. Spans have no content: no
// command, file or value.
package tracing

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/version"
)

// provider is nil while nothing is recorded.
var provider atomic.Pointer[sdk.TracerProvider]

var propagator propagation.TraceContext

// Start begins to send spans to the collector that the environment names. Without one, it does
// nothing. failed is called with the errors of the exporter. The caller must call stop, which sends
// the remaining spans.
func Start(ctx context.Context, failed func(error)) (stop func(context.Context) error, err error) {
	client, err := clientOfEnvironment()
	if err != nil || client == nil {
		return func(context.Context) error { return nil }, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fault.Wrap(err, "start traces", "")
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "pyro"), attribute.String("service.version", version.String())), resource.WithFromEnv())
	if err != nil {
		return nil, fault.Wrap(err, "start traces", "")
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	provider.Store(p)
	return func(ctx context.Context) error {
		provider.CompareAndSwap(p, nil)
		return p.Shutdown(ctx)
	}, nil
}

// Span is an operation in progress.
type Span struct{ span trace.Span }

// Begin begins a span within the span of ctx. The caller must call End.
func Begin(ctx context.Context, name string, attributes ...string) (context.Context, Span) {
	return begin(ctx, trace.SpanKindInternal, name, attributes...)
}

func begin(ctx context.Context, kind trace.SpanKind, name string, attributes ...string) (context.Context, Span) {
	p := provider.Load()
	if p == nil {
		return ctx, Span{}
	}
	ctx, span := p.Tracer("github.com/pyro-mcp/pyro").Start(ctx, name, trace.WithSpanKind(kind))
	s := Span{span}
	s.Set(attributes...)
	return ctx, s
}

// Set adds attributes: names and values in turn.
func (s Span) Set(attributes ...string) {
	if s.span == nil {
		return
	}
	for i := 0; i+1 < len(attributes); i += 2 {
		s.span.SetAttributes(attribute.String(attributes[i], attributes[i+1]))
	}
}

// End ends the span. An error is recorded with its kind alone, because its text can contain a path.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.Fail(string(fault.KindOf(err)))
	}
	s.span.End()
}

// Fail marks the span as failed, with the kind of the error.
func (s Span) Fail(kind string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String("error.type", kind))
		s.span.SetStatus(codes.Error, kind)
	}
}

// Name replaces the name of the span.
func (s Span) Name(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// Request begins the span of a request with the trace of its header traceparent, or a new trace.
// The caller must call End.
func Request(ctx context.Context, header http.Header, name string, attributes ...string) (context.Context, Span) {
	ctx = propagator.Extract(ctx, propagation.HeaderCarrier(header))
	if provider.Load() == nil && !trace.SpanContextFromContext(ctx).IsValid() {
		var c trace.SpanContextConfig
		rand.Read(c.TraceID[:])
		rand.Read(c.SpanID[:])
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(c))
	}
	return begin(ctx, trace.SpanKindServer, name, attributes...)
}

// ID returns the trace ID of ctx, or an empty text if ctx has none.
func ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		return c.TraceID().String()
	}
	return ""
}

// inject adds the trace of ctx to the headers of a request.
func inject(ctx context.Context, header http.Header) {
	propagator.Inject(ctx, propagation.HeaderCarrier(header))
}
