//go:build machine

package test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/test/sdktest"
)

// TestStandardForms runs the checks in package sdktest on a real machine that has no network. Then
// it connects to a program in a paused machine.
func TestStandardForms(t *testing.T) {
	t.Parallel()
	p, err := pyro.New(pyro.Options{StateDir: t.TempDir(), Program: fromBin(t, "pyro")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ws, err := p.CreateWorkspace(t.Context(), pyro.CreateWorkspaceRequest{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ws.Delete(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	t.Logf("isolation %s", ws.Isolation)
	sdktest.Run(t, ws)

	t.Run("paused", func(t *testing.T) {
		_, err := p.StartService(t.Context(), pyro.StartServiceRequest{
			WorkspaceID: ws.WorkspaceID, ServiceName: "web", Argv: []string{"bin/server", "[::1]:18090"},
			Readiness: &pyro.Readiness{Type: pyro.ReadyTCP, Target: "[::1]:18090"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Pause(t.Context()); err != nil || ws.State != pyro.StatePaused {
			t.Fatalf("%s, %v", ws.State, err)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: ws.DialContext}, Timeout: time.Minute}
		defer client.CloseIdleConnections()
		r, err := client.Get("http://localhost:18090/again")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if text, err := io.ReadAll(r.Body); string(text) != "/again " || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}
