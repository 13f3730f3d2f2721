// Package sdktest checks the methods of a pyro.Workspace that mirror Go's standard library. Package
// pyro runs the checks on the host. Package test runs the same checks on real machines.
package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro"
)

// Run runs all checks in a running workspace. The folder /workspace must be empty.
func Run(t *testing.T, ws *pyro.Workspace) {
	t.Run("files", func(t *testing.T) { files(t, ws) })
	t.Run("commands", func(t *testing.T) { commands(t, ws) })
	t.Run("dialing", func(t *testing.T) { dialing(t, ws) })
	t.Run("lists", func(t *testing.T) { lists(t, ws) })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve starts an HTTP server in the workspace. The server listens on the given address.
func serve(t *testing.T, ws *pyro.Workspace, address string) {
	t.Helper()
	server := filepath.Join(t.TempDir(), "server")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", server, "github.com/pyro-mcp/pyro/test/sdktest/server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	program, err := os.ReadFile(server)
	check(t, err)
	check(t, ws.FS().WriteFile("bin/server", program, 0o755))
	cmd := ws.Command("bin/server", address)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
}

func dialing(t *testing.T, ws *pyro.Workspace) {
	serve(t, ws, "127.0.0.1:18080")
	client := &http.Client{Transport: &http.Transport{DialContext: ws.DialContext}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for i := range 3 { // all requests use one connection
		r, err := client.Post(fmt.Sprintf("http://localhost:18080/%d", i), "text/plain", strings.NewReader("hello"))
		check(t, err)
		text, err := io.ReadAll(r.Body)
		check(t, err)
		r.Body.Close()
		if want := fmt.Sprintf("/%d hello", i); string(text) != want {
			t.Errorf("answer %q, not %q", text, want)
		}
	}
	large := strings.Repeat("0123456789abcdef", 1<<16)
	r, err := client.Post("http://127.0.0.1:18080/large", "text/plain", strings.NewReader(large))
	check(t, err)
	text, err := io.ReadAll(r.Body)
	check(t, err)
	r.Body.Close()
	if string(text) != "/large "+large {
		t.Errorf("wrote %d bytes, read %d", len(large), len(text))
	}
	for address, kind := range map[string]error{
		"localhost:18081": pyro.ErrUnavailable, "example.org:80": pyro.ErrInvalid, "localhost:http": pyro.ErrInvalid, "localhost": pyro.ErrInvalid,
	} {
		if conn, err := ws.DialContext(t.Context(), "tcp", address); !errors.Is(err, kind) {
			t.Errorf("dial %s: %v, %v", address, conn, err)
		}
	}
	if _, err := ws.DialContext(t.Context(), "udp", "localhost:18080"); !errors.Is(err, pyro.ErrUnsupported) {
		t.Errorf("udp: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ws.DialContext(ctx, "tcp", "localhost:18080"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func lists(t *testing.T, ws *pyro.Workspace) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last := 0
	for c, err := range ws.Commands(ctx) {
		check(t, err)
		if c.Sequence != last+1 {
			t.Errorf("got command %d after %d", c.Sequence, last)
		}
		last = c.Sequence
	}
	if last < 5 {
		t.Errorf("the history ends at %d", last)
	}
	check(t, ws.Command("true").Run())
	followed := 0
	for c, err := range ws.FollowCommands(ctx) {
		check(t, err)
		if followed++; c.Sequence == last+1 {
			break
		}
	}
	if followed != last+1 {
		t.Errorf("%d commands were followed, not %d", followed, last+1)
	}
	for s, err := range ws.Snapshots(ctx) {
		check(t, err)
		if s.SnapshotName != pyro.BaselineSnapshot {
			t.Errorf("snapshot %s", s.SnapshotName)
		}
	}
	for _, err := range ws.FollowService(ctx, "none") {
		if !errors.Is(err, pyro.ErrNotFound) {
			t.Errorf("a service that does not exist: %v", err)
		}
	}
	for s, err := range ws.Services(ctx) {
		t.Errorf("service %v, %v", s, err)
	}
}
