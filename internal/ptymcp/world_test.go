package ptymcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/mcp/mcptest"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// serveEnv is an environment variable with the folder of sessions. If it is set, the test program
// is a server for that folder, on its standard streams.
const serveEnv = "PYRO_PTYMCP_TEST_SERVE"

// sessionProgram returns the path of the program that runs the session processes. It is the built
// program pty-mcp, because the race detector watches session processes in package process.
func sessionProgram() (string, error) { return os.Getenv(sessionEnv), nil }

const sessionEnv = "PYRO_PTYMCP_TEST_SESSION"

// TestMain lets the test program run as a server too.
func TestMain(m *testing.M) {
	if root := os.Getenv(serveEnv); root != "" && len(os.Args) == 1 {
		c, err := FromEnv(os.LookupEnv)
		if err != nil {
			panic(err)
		}
		s := New(c, root, sessionProgram, "1")
		defer s.Close()
		s.Run(context.Background(), os.Stdin, os.Stdout)
		return
	}
	dir, remove, err := testenv.Programs("pty-mcp")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(sessionEnv, filepath.Join(dir, "pty-mcp"))
	os.Setenv("GORACE", testenv.RaceOptions())
	home, err := os.MkdirTemp("", "pyro-ptymcp-test-") // login shells read files in the user's home folder
	if err != nil {
		panic(err)
	}
	os.Setenv("HOME", home)
	code := m.Run()
	os.RemoveAll(home)
	remove()
	os.Exit(code)
}

// env contains environment variables, by names without the prefix.
type env map[string]string

func (e env) config(t testing.TB) Config {
	t.Helper()
	c, err := FromEnv(func(name string) (string, bool) {
		value, ok := e[strings.TrimPrefix(name, prefix)]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a server, with the sessions of one test.
type world struct {
	*Server
	root string
}

// newWorld starts a server. When the test ends, newWorld's cleanup checks that no session and no
// goroutine is left.
func newWorld(t testing.TB, e env) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	w := &world{root: t.TempDir() + "/sessions"}
	w.Server = New(e.config(t), w.root, sessionProgram, "1")
	t.Cleanup(func() {
		if _, err := w.closeAll(context.Background(), noArguments{}, nil); err != nil {
			t.Error(err)
		}
		w.Close()
		checkNoGoroutines(t, before)
	})
	return w
}

// checkNoGoroutines checks that no goroutine is left. Goroutines that wait for a session process
// end with that process, which takes a while on a busy host.
func checkNoGoroutines(t testing.TB, before goleak.Option) {
	t.Helper()
	for began := time.Now(); ; {
		err := goleak.Find(before)
		if err == nil {
			return
		}
		if time.Since(began) > testenv.Patience {
			t.Error(err)
			return
		}
	}
}

// restarted starts another server for the same sessions.
func (w *world) restarted(t testing.TB, e env) *world {
	t.Helper()
	s := New(e.config(t), w.root, sessionProgram, "1")
	t.Cleanup(func() { s.Close() })
	return &world{s, w.root}
}

// args are the arguments of a tool call.
type args map[string]any

func (w *world) try(t testing.TB, tool string, a args) (json.RawMessage, error) {
	t.Helper()
	if _, said := a["owner"]; !said && strings.HasPrefix(tool, "pty_") && tool != "pty_close_all" && tool != "pty_metrics" && tool != "pty_health" {
		a["owner"] = "me"
	}
	switch tool { // the default time limit is too short for a stalled host
	case "pty_read_until", "pty_read_until_any", "pty_read_quiescent", "pty_prompt", "pty_wait", "pty_send_secret":
		if _, said := a["timeout_ms"]; !said {
			a["timeout_ms"] = testenv.Patience.Milliseconds()
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return w.mcp.Call(t.Context(), tool, text, nil)
}

// text calls a tool whose result is a text.
func (w *world) text(t testing.TB, tool string, a args) (text string) {
	t.Helper()
	raw, err := w.try(t, tool, a)
	if err == nil {
		err = json.Unmarshal(raw, &text)
	}
	if err != nil {
		t.Fatalf("%s %v: %v", tool, a, err)
	}
	return text
}

// object calls a tool whose result is an object.
func (w *world) object(t testing.TB, tool string, a args) (object map[string]any) {
	t.Helper()
	raw, err := w.try(t, tool, a)
	if err == nil {
		err = json.Unmarshal(raw, &object)
	}
	if err != nil {
		t.Fatalf("%s %v: %v", tool, a, err)
	}
	return object
}

// refused calls a tool. The call must fail with the given kind, and its error must contain the
// given text.
func (w *world) refused(t testing.TB, tool string, a args, kind fault.Kind, says string) {
	t.Helper()
	raw, err := w.try(t, tool, a)
	if fault.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
		t.Errorf("%s %.300v: %s, %v (%s), not %q (%s)", tool, a, raw, err, fault.KindOf(err), says, kind)
	}
}

// spawn starts a session that runs a command, and returns the session ID.
func (w *world) spawn(t testing.TB, command string, more ...args) string {
	t.Helper()
	a := args{"command": command}
	for _, m := range more {
		for name, value := range m {
			a[name] = value
		}
	}
	return w.text(t, "pty_spawn", a)
}

// until waits until a session prints a text.
func (w *world) until(t testing.TB, id, pattern string) string {
	t.Helper()
	r := w.object(t, "pty_read_until", args{"session_id": id, "pattern": pattern})
	if r["matched"] != true {
		t.Fatalf("it did not print %q: %v", pattern, r)
	}
	return r["text"].(string)
}

// processes returns the session processes and tmux processes of this world.
func (w *world) processes() (all []int) {
	for _, pid := range session.Descendants(1) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(line, []byte(w.root)) {
			all = append(all, pid)
		}
	}
	return all
}

// connections returns the number of connections to a session process.
func (w *world) connections(t testing.TB, id string) (n int) {
	t.Helper()
	pid, err := flock.Holder(w.root + "/" + id + "/keeper.lock")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 6 {
			sockets["socket:["+fields[6]+"]"] = true
		}
	}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil && sockets[name] {
			n++
		}
	}
	return n - 1 // not counting the listening socket
}

// client returns an SDK client that is connected to the server over streams.
func (w *world) client(t testing.TB, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.Client(t, w.Run, o)
}
