package tracing

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// client sends spans with OTLP over HTTP. The client of OpenTelemetry would add gRPC and 5 MB to
// the program.
type client struct {
	url     string
	shown   string // without a password
	header  http.Header
	timeout time.Duration // time limit of an export with all its attempts
	http    *http.Client
}

// environment returns a variable for traces, or the one for all signals.
func environment(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// clientOfEnvironment returns the client that the environment describes, or nil if it names no
// collector. See https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func clientOfEnvironment() (*client, error) {
	address := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); address == "" && base != "" {
		address = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if address == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.Newf(fault.Invalid, "OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL")
	}
	if p := environment("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fault.Newf(fault.Unsupported, "OTEL_EXPORTER_OTLP_PROTOCOL is %q: pyro supports only http/protobuf", fault.Printable(p))
	}
	c := &client{url: address, shown: u.Redacted(), header: http.Header{}, timeout: 10 * time.Second, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if ms, err := strconv.Atoi(environment("TIMEOUT")); err == nil && ms > 0 {
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(environment("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if value, err = url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			c.header.Set(strings.TrimSpace(name), value)
		}
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	return c, nil
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It tries again if the collector is busy.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	content, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // has the form of an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for wait := time.Second; ; wait *= 2 {
		again, err := c.send(ctx, content)
		if !again {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

func (c *client) send(ctx context.Context, content []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(content))
	if err != nil {
		return false, err
	}
	req.Header = c.header.Clone()
	r, err := c.http.Do(req)
	if err != nil {
		return ctx.Err() == nil, err
	}
	defer r.Body.Close()
	io.Copy(io.Discard, io.LimitReader(r.Body, 64<<10)) // so that the connection can be used again
	switch {
	case r.StatusCode/100 == 2:
		return false, nil
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode >= http.StatusBadGateway && r.StatusCode <= http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("send spans to %s: %s", c.shown, r.Status)
}
