package ptymcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// TestEndOfInput sends a call from a file. The server must answer it, and then end. If the client
// has ended, the server must end soon.
func TestEndOfInput(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `sleep 1; echo is over; sleep 1000`)
	start := func(pattern string) (hear *os.File, cmd *exec.Cmd) {
		calls := filepath.Join(t.TempDir(), "calls")
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pty_read_until","arguments":{"session_id":%q,"owner":"me","pattern":%q,"timeout_ms":300000}}}
`, id, pattern)
		if err := os.WriteFile(calls, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(calls)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		hear, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd = exec.Command(os.Args[0])
		cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), serveEnv+"="+w.root), in, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return hear, cmd
	}

	hear, cmd := start("is over")
	said, err := io.ReadAll(hear)
	if err != nil || !strings.Contains(string(said), `is over`) || !strings.Contains(string(said), `"id":2`) {
		t.Errorf("%s, %v", said, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}

	hear, cmd = start("never")
	if _, err := bufio.NewReader(hear).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	hear.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute): // the timeout of the call is five minutes
		t.Error("the server has not ended")
		cmd.Process.Kill()
		<-ended
	}
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
