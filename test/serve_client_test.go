//go:build machine

package test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/client"
	"github.com/pyro-mcp/pyro/internal/tracing/tracingtest"
)

// TestServeTemplates creates a template of a sandbox with a running program, and creates a sandbox
// from it. It also checks the use of the team, the metrics and the traces.
func TestServeTemplates(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	p := workspaces(t).with("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	a := &api{t: t, p: p, keyFile: filepath.Join(p.state, "api-key")}
	token := filepath.Join(p.state, "metrics-token")
	a.start("--metrics-token-file", token)
	c, ctx := a.client(), t.Context()
	is := func(what string, r interface{ StatusCode() int }, err error, want int) {
		t.Helper()
		if err != nil || r.StatusCode() != want {
			t.Fatalf("%s: got %d, want %d, %v", what, r.StatusCode(), want, err)
		}
	}

	made, path := a.create(client.NewSandbox{})
	source := made.Id
	background := true
	ran, err := c.SandboxesExecWithResponse(ctx, source, client.Exec{Cmd: "sleep", Args: &[]string{"12345"}, Background: &background})
	is("exec in the background", ran, err, 202)
	a.sh(path, "echo kept > /srv/file")

	name, files := "tools", true
	template, err := c.SnapshotsCreateWithResponse(ctx, nil, client.SnapshotsCreateRequest{SandboxId: source, Name: &name})
	is("make a template", template, err, 201)
	if got := template.JSON201; got.SizeBytes == 0 || string(got.Type) != "snapshot" {
		t.Errorf("%+v", got)
	}
	gone, err := c.SandboxesGetWithResponse(ctx, source)
	is("get the sandbox that became a template", gone, err, 404)
	made, path = a.create(client.NewSandbox{Template: &name})
	if got := a.sh(path, `cat /srv/file; cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -c 'sleep 1234[5]'`); got != "kept\n1\n" {
		t.Errorf("got %q", got)
	}
	used, err := c.SnapshotsDeleteWithResponse(ctx, name)
	is("delete a template in use", used, err, 409)

	// A second template without processes replaces the first, which the new sandbox still uses.
	overwrite := true
	template, err = c.SnapshotsCreateWithResponse(ctx, &client.SnapshotsCreateParams{Overwrite: &overwrite}, client.SnapshotsCreateRequest{SandboxId: made.Id, Name: &name, FilesOnly: &files})
	is("replace the template", template, err, 201)
	made, path = a.create(client.NewSandbox{Template: &name})
	id := made.Id
	if got := a.sh(path, "cat /srv/file"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
	paused, err := c.SandboxesPauseWithResponse(ctx, id)
	is("pause", paused, err, 200)
	span := client.SandboxesMetricsParamsRange("5m")
	measured, err := c.SandboxesMetricsWithResponse(ctx, id, &client.SandboxesMetricsParams{Range: &span})
	is("read the metrics of a paused sandbox", measured, err, 200)
	stats, err := c.SandboxesStatsWithResponse(ctx, nil)
	is("stats", stats, err, 200)
	if s := stats.JSON200; s.Current.RunningCount != 0 || s.Peaks.RunningCount != 1 {
		t.Errorf("%+v", s)
	}
	deleted, err := c.SandboxesDeleteWithResponse(ctx, id)
	is("delete", deleted, err, 204)
	removed, err := c.SnapshotsDeleteWithResponse(ctx, name)
	is("delete the template", removed, err, 204)

	bearer, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	req := newRequest(ctx, "GET", a.address+"/metrics", nil, "Authorization", "Bearer "+strings.TrimSpace(string(bearer)))
	if _, text := a.send(http.DefaultClient, req); !strings.Contains(text, `pyro_create_seconds_count{result="ok"} 3`) || !strings.Contains(text, `pyro_rpc_seconds_count{method="CreateSnapshot",code="ok"} 1`) {
		t.Errorf("got the metrics %s", text)
	}
	a.server.Process.Signal(os.Interrupt)
	if err := a.server.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	spans := collector.Spans() // the server has sent the last spans before it ended
	exec := spans["exec"]
	if request := spans["POST /v1/sandboxes/{id}/exec"]; exec.Trace == "" || request.Trace != exec.Trace {
		t.Errorf("got the spans %+v", spans)
	}
}
