package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/tracing/tracingtest"
)

// TestSend checks the spans that a collector receives, even if it is busy at first.
func TestSend(t *testing.T) {
	collector := tracingtest.New(t)
	collector.Busy.Store(true)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b, other=c")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	stop, err := Start(t.Context(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, parent := Request(t.Context(), http.Header{"Traceparent": {"00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"}}, "GET")
	parent.Name("GET /x")
	_, child := Begin(ctx, "work", "sandbox", "cl-1")
	child.End(context.DeadlineExceeded)
	parent.End(nil)
	if got := ID(ctx); got != "0102030405060708090a0b0c0d0e0f10" {
		t.Errorf("got trace %q", got)
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 2 || spans["work"].Parent != spans["GET /x"].ID || spans["GET /x"].Parent != "1112131415161718" || spans["work"].Trace != ID(ctx) {
		t.Errorf("got %+v", spans)
	}
	if a := spans["work"].Attributes; a["sandbox"] != "cl-1" || a["error.type"] != "timeout" || a["service.name"] != "pyro" || a["deployment.environment"] != "test" {
		t.Errorf("got %+v", a)
	}
	if got := collector.Header().Get("X-Key"); got != "a b" {
		t.Errorf("got header %q", got)
	}
	if collector.Requests() < 2 {
		t.Error("the exporter did not try again")
	}
}

// TestNothingIsSent checks that requests have a trace ID without a collector, and that wrong
// variables are errors.
func TestNothingIsSent(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	stop, err := Start(t.Context(), nil)
	if err != nil || provider.Load() != nil {
		t.Fatal(err)
	}
	ctx, span := Request(t.Context(), http.Header{}, "GET")
	span.End(io.EOF)
	other, _ := Request(t.Context(), http.Header{}, "GET")
	if len(ID(ctx)) != 32 || ID(ctx) == ID(other) || ID(t.Context()) != "" {
		t.Errorf("got %q and %q", ID(ctx), ID(other))
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			if _, err := Start(t.Context(), nil); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestCollectorHangs checks that the end of a program does not wait for a collector.
func TestCollectorHangs(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer server.Close()
	defer close(done)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL)
	stop, err := Start(t.Context(), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	_, span := Begin(t.Context(), "work")
	span.End(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	stop(ctx)
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
}
