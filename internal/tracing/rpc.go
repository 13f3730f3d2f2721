package tracing

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
)

// RPC is an interceptor that adds a span for each call, in clients and in servers. A client sends
// the trace, and a server continues it.
type RPC struct{}

func beginCall(ctx context.Context, spec connect.Spec, header http.Header) (context.Context, Span) {
	name := strings.TrimPrefix(spec.Procedure, "/")
	service, method, _ := strings.Cut(name, "/")
	attributes := []string{"rpc.system", "connect_rpc", "rpc.service", service, "rpc.method", method}
	if !spec.IsClient {
		return Request(ctx, header, name, attributes...)
	}
	ctx, span := begin(ctx, trace.SpanKindClient, name, attributes...)
	inject(ctx, header)
	return ctx, span
}

func (s Span) endCall(err error) {
	if err != nil {
		s.Fail(connect.CodeOf(err).String())
	}
	s.End(nil)
}

// WrapUnary implements connect.Interceptor.
func (RPC) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, span := beginCall(ctx, req.Spec(), req.Header())
		r, err := next(ctx, req)
		span.endCall(err)
		return r, err
	}
}

// WrapStreamingClient implements connect.Interceptor. The span of a stream ends when the stream is
// open, because its client might never close it.
func (RPC) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		header := http.Header{}
		ctx, span := beginCall(ctx, spec, header)
		conn := next(ctx, spec)
		for name, values := range header {
			conn.RequestHeader()[name] = values
		}
		span.endCall(nil)
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (RPC) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, span := beginCall(ctx, conn.Spec(), conn.RequestHeader())
		err := next(ctx, conn)
		span.endCall(err)
		return err
	}
}
