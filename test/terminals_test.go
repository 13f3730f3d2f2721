//go:build !machine

// The test of this file needs no machine, so it does not run again with the tests of machines.

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// terminals contains the folders and the environment variables of terminal servers.
type terminals struct {
	t     *testing.T
	node  string
	state string
	env   []string
}

// newTerminals creates the folders. At the end of the test, it checks that no sessions and
// processes remain.
func newTerminals(t *testing.T) *terminals {
	t.Helper()
	for _, program := range []string{"vim", "python3"} {
		testenv.NeedsTool(t, program)
	}
	w := &terminals{t: t, node: nodeWithClients(t), state: t.TempDir()}
	w.env = append(os.Environ(), "PYRO_STATE_DIR="+w.state, "PTY_MCP_SESSION_LOG_DIR="+t.TempDir(), "HOME="+t.TempDir())
	t.Cleanup(w.leftNothing)
	return w
}

// run runs a script in test/mcp and returns its output.
func (w *terminals) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, w.node, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "mcp", w.env, &out, &said, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %q: %v\n%s%s", args, err, out.Bytes(), said.Bytes())
	}
	return out.String()
}

// checkNoLeftovers waits until all processes have ended. It checks that no session remains.
func (w *terminals) leftNothing() {
	w.t.Helper()
	began := time.Now()
	for left := w.processes(); len(left) > 0; left = w.processes() {
		if time.Since(began) > time.Minute {
			w.t.Errorf("left: %q", left)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if left, _ := filepath.Glob(w.state + "/sessions/[0-9]*"); len(left) > 0 {
		w.t.Errorf("left: %q", left)
	}
}

// processes returns the command lines of the processes whose environment contains the state folder.
// These are servers, session processes and programs.
func (w *terminals) processes() (lines []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "PYRO_STATE_DIR="+w.state) {
			line, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
			lines = append(lines, filepath.Dir(path)+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}

// TestTerminalsByOfficialClients uses third-party clients to control real programs on terminals: an
// editor, an interpreter, and a password prompt.
func TestTerminalsByOfficialClients(t *testing.T) {
	w := newTerminals(t)
	server := fromBin(t, "pty-mcp")
	t.Run("typescript over stdio", func(t *testing.T) {
		w.run(t, "terminals.mjs", t.TempDir(), "vim,python,password", "stdio", server)
	})
	t.Run("typescript over http", func(t *testing.T) {
		const token = "0123456789abcdef"
		cmd := exec.Command(fromBin(t, "pyro"), "mcp", "serve", "--profile", "pty", "--transport", "http")
		cmd.Env = append(w.env, "PYRO_MCP_TOKEN="+token)
		at := serving(t, cmd)
		defer cmd.Wait()
		defer cmd.Process.Signal(os.Interrupt)
		w.run(t, "terminals.mjs", t.TempDir(), "python", "http", at, token)
	})
	t.Run("inspector", func(t *testing.T) {
		call := func(args ...string) string {
			return w.run(t, append([]string{inspector, "--cli", server, "-e", "PYRO_STATE_DIR=" + w.state, "--method"}, args...)...)
		}
		if text := call("tools/list"); !strings.Contains(text, `"pty_screen"`) {
			t.Error(text)
		}
		var spawned struct{ Content []struct{ Text string } }
		text := call("tools/call", "--tool-name", "pty_spawn", "--tool-arg", "command=sleep 1000", "owner=agent")
		if err := json.Unmarshal([]byte(text), &spawned); err != nil || len(spawned.Content) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		// The server has ended, but the next server must find the session.
		if text := call("tools/call", "--tool-name", "pty_close", "--tool-arg", "session_id="+spawned.Content[0].Text, "owner=agent"); !strings.Contains(text, `"ok"`) {
			t.Error(text)
		}
	})
}
