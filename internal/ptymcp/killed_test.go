package ptymcp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// process starts a server as a separate process and connects to it.
func (w *world) process(t testing.TB) (*sdk.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+w.root)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, cmd
}

func called(t testing.TB, c *sdk.ClientSession, tool string, a args) string {
	t.Helper()
	a["owner"] = "me"
	r, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil || r.IsError {
		t.Fatalf("%s %v: %+v, %v", tool, a, r, err)
	}
	return r.Content[0].(*sdk.TextContent).Text
}

// TestKilledServer kills servers while clients read. The responses must contain all output exactly
// once, except that each killed server may lose one response.
func TestKilledServer(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `for i in $(seq 300); do echo "line $i"; sleep 0.002; done; echo over; sleep 1000`)
	var got strings.Builder
	for range 3 {
		c, cmd := w.process(t)
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
			got.WriteString(called(t, c, "pty_read", args{"session_id": id, "max_chars": 37}))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for !strings.Contains(got.String(), "over") {
		got.WriteString(w.text(t, "pty_read", args{"session_id": id, "timeout_ms": 5000}))
	}
	var want strings.Builder
	for i := 1; i <= 300; i++ {
		want.WriteString(fmt.Sprintf("line %d\r\n", i))
	}
	want.WriteString("over\r\n")
	if got.String() != want.String() {
		t.Errorf("%q", got.String())
	}
}

// BenchmarkEcho measures the time from typing a key to reading its echo, through a server process.
func BenchmarkEcho(b *testing.B) {
	w := newWorld(b, nil)
	c, _ := w.process(b)
	id := called(b, c, "pty_spawn", args{"command": "stty raw -echo; echo ready; exec cat", "scope": "read-write"})
	called(b, c, "pty_read_until", args{"session_id": id, "pattern": "ready"})
	called(b, c, "pty_read_quiescent", args{"session_id": id, "quiescence_ms": 50, "timeout_ms": 300})
	for b.Loop() {
		called(b, c, "pty_write", args{"session_id": id, "data": "x"})
		if got := called(b, c, "pty_read", args{"session_id": id, "timeout_ms": 5000}); got != "x" {
			b.Fatalf("%q", got)
		}
	}
}
