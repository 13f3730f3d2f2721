package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/tracing"
	"github.com/pyro-mcp/pyro/internal/tracing/tracingtest"
)

// get sends a request, and returns the status and the body.
func get(t *testing.T, url, authorization string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// TestMetrics checks who gets the metrics, and that the dashboard names only metrics that exist.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	const token = "token for metrics"
	server := httptest.NewServer(New(Options{Control: w.control, Log: slog.New(slog.DiscardHandler), Metrics: secret.New(token)}))
	defer server.Close()
	w.create()
	get(t, server.URL+"/v1/sandboxes/cl-1", "")
	get(t, server.URL+"/unknown", "")
	for authorization, want := range map[string]int{"": 401, "Bearer ": 401, "Bearer token": 401, "Bearer " + w.keys["full"]: 401, token: 401} {
		if got, text := get(t, server.URL+"/metrics", authorization); got != want || strings.Contains(text, "pyro_") {
			t.Errorf("%q: got %d: %s", authorization, got, text)
		}
	}
	if got, _ := get(t, w.url+"/metrics", "Bearer "+token); got != 404 {
		t.Errorf("a server without a token: got %d", got)
	}
	status, text := get(t, server.URL+"/metrics", "Bearer "+token)
	if status != 200 {
		t.Fatalf("got %d", status)
	}
	for _, line := range []string{
		`pyro_sandboxes{status="running"} 1`, `pyro_http_request_seconds_count{method="GET",route="/v1/sandboxes/{id}",status="401"} 1`,
		`pyro_http_request_seconds_count{method="GET",route="/",status="404"} 1`, `pyro_http_requests_open 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing in:\n%s", line, text)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if !regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+)$`).MatchString(line) {
			t.Errorf("the line %q is malformed", line)
		}
	}
	dashboard, err := os.ReadFile("../../docs/grafana-dashboard.json")
	w.check(err)
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	w.check(json.Unmarshal(dashboard, &d))
	names := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(pyro|go|process)_[a-z_]+`).FindAllString(target.Expr, -1) {
				names++
				name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
				if !strings.Contains(text, "# TYPE "+name+" ") {
					t.Errorf("the dashboard names %s, which does not exist", name)
				}
			}
		}
	}
	if names < 10 {
		t.Errorf("the dashboard names only %d metrics", names)
	}
}

// TestLog checks the line and the spans of a request, with the trace of its client.
func TestLog(t *testing.T) {
	w := newWorld(t)
	collector := tracingtest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	stop, err := tracing.Start(t.Context(), func(err error) { t.Error(err) })
	w.check(err)
	var log bytes.Buffer
	server := New(Options{Control: w.control, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	const id = "0102030405060708090a0b0c0d0e0f10"
	req := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/sandboxes", strings.NewReader(`{"envs": {"A": "secret text"}}`))
	req.Header.Set(keyHeader, w.keys["full"])
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+id+"-1112131415161718-01")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, req)
	if answer.Code != 201 {
		t.Fatalf("got %d: %s", answer.Code, answer.Body)
	}
	var line struct {
		Method, Route string
		Status        int
		MS            float64
		TraceID       string `json:"trace_id"`
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Method != "POST" || line.Route != "/v1/sandboxes" || line.Status != 201 || line.TraceID != id || line.MS <= 0 {
		t.Errorf("%v: %s", err, log.String())
	}
	log.Reset()
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "BREW", "http://localhost/secret%20text", nil))
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Method != "other" || line.Route != "/" || line.Status != 404 || len(line.TraceID) != 32 || line.TraceID == id {
		t.Errorf("%v: %s", err, log.String())
	}
	w.check(stop(t.Context()))
	spans := collector.Spans()
	request, operation := spans["POST /v1/sandboxes"], spans["create sandbox"]
	if request.Trace != id || request.Parent != "1112131415161718" || operation.Parent != request.ID || !strings.HasPrefix(operation.Attributes["sandbox"], "cl-") {
		t.Errorf("%+v", spans)
	}
	if text, _ := json.Marshal(spans); bytes.Contains(text, []byte("secret text")) || strings.Contains(log.String(), "secret text") {
		t.Errorf("content is in %s or %s", text, log.String())
	}
}

// TestFormsLeaveNothing checks that the temporary file of an upload is removed.
func TestFormsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	w := newWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/v1/sandboxes/cl-none/files/write", strings.NewReader(form("/a", strings.Repeat("x", 1<<20))))
	w.check(err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	req.Header.Set(keyHeader, w.keys["full"])
	r, err := http.DefaultClient.Do(req)
	w.check(err)
	r.Body.Close()
	if left, err := filepath.Glob(filepath.Join(dir, "multipart-*")); r.StatusCode != 404 || len(left) > 0 || err != nil {
		t.Errorf("got %d, left %v, %v", r.StatusCode, left, err)
	}
}
