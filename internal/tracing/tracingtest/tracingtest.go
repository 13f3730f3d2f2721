// Package tracingtest is a collector of traces for tests.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces with OTLP over HTTP.
type Collector struct {
	URL  string
	Busy atomic.Bool // refuse one request

	mu       sync.Mutex
	spans    []Span
	header   http.Header
	requests int
}

// Span is a span that the collector got. Attributes includes the attributes of its process.
type Span struct {
	Name string

	Trace, ID, Parent string // in hex
	Attributes        map[string]string
}

// New starts a collector, which ends with the test.
func New(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(content, &data)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		c.header = r.Header
		switch {
		case c.Busy.Swap(false):
			w.WriteHeader(http.StatusServiceUnavailable)
		case err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf":
			t.Errorf("a request to %s: %v", r.URL.Path, err)
		default:
			c.add(&data)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) add(data *tracepb.TracesData) {
	for _, process := range data.ResourceSpans {
		for _, scope := range process.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{s.Name, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), map[string]string{}}
				for _, a := range append(s.Attributes, process.Resource.GetAttributes()...) {
					span.Attributes[a.Key] = a.Value.GetStringValue()
				}
				c.spans = append(c.spans, span)
			}
		}
	}
}

// Spans returns the spans by name. Of several spans with a name, it returns the last.
func (c *Collector) Spans() map[string]Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]Span{}
	for _, s := range c.spans {
		all[s.Name] = s
	}
	return all
}

// All returns all spans.
func (c *Collector) All() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Header returns the header of the last request.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Requests returns the number of requests.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}
