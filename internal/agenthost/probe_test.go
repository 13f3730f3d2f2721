package agenthost

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program writes a shell script that acts as a server. It returns the path of the script.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := testenv.WriteProgram(path, []byte("#!/bin/sh\n"+text)); err != nil {
		t.Fatal(err)
	}
	return path
}

// answers is a server that answers until a client has asked for its tools.
const answers = `say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,$2}"; }
while read -r line; do
	id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"initialize"'*) say $id '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"pyro","version":"7"}}' ;;
	*'"tools/list"'*) say $id '"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}'; break ;;
	*'"id"'*) say $id '"error":{"code":-32601,"message":"no such method"}' ;;
	esac
done
`

// TestAsk checks that each server and its children have ended when ask returns.
func TestAsk(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	for _, c := range []struct {
		name, text, says string
	}{
		{"answers", answers + "cat >/dev/null", ""},
		{"does not end", answers + "trap '' TERM\nwhile :; do sleep 1; done", "it answered, but did not exit cleanly: signal: killed"},
		{"leaves another", answers + "sleep 1000 >/dev/null 2>&1 &\necho $! >" + pid + "\ncat >/dev/null", ""},
		{"ends", "echo 'no such \033[31mthing' >&2; exit 3", "stderr: no such [31mthing"},
		{"writes no message", "echo hello; cat >/dev/null", "initialize: "},
		{"floods", "tr '\\0' x </dev/zero", "initialize: "},
		{"floods the error", "tr '\\0' x </dev/zero >&2 & sleep 1", "stderr: xxx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			a, err := ask(t.Context(), program(t, c.text), Server{}, t.TempDir())
			if took := time.Since(began); took > testenv.Patience {
				t.Errorf("it took %s", took)
			}
			if c.says == "" && (err != nil || a != (answer{"pyro", "7", 1})) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%+v, %v", a, err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
		})
	}
	t.Cleanup(func() {
		text, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		var left int
		fmt.Sscan(string(text), &left)
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", left)); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("a process that it started still exists: %s", state)
			syscall.Kill(left, syscall.SIGKILL)
		}
	})
}

// TestAskIsCancelled checks that the server is killed when the context is done.
func TestAskIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := ask(ctx, program(t, "sleep 1000"), Server{}, t.TempDir()); err == nil || time.Since(began) > testenv.Patience {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestRun checks that an error contains the output of the host's command. It also checks the limits
// on output and time.
func TestRun(t *testing.T) {
	h := Host{Name: "x", Title: "X", Program: "x"}
	home := Home{Work: t.TempDir()}
	err := h.run(t.Context(), home, program(t, "echo 'no \033[1mway' >&2; exit 1"), []string{"mcp", "add", "a b"})
	if fault.KindOf(err) != fault.Unavailable || err.Error() != `run "x mcp add 'a b'": no [1mway` {
		t.Errorf("%v", err)
	}
	if err := h.run(t.Context(), home, program(t, "yes | head -c 10000000; exit 1"), nil); err == nil || len(err.Error()) > 1000 {
		t.Errorf("much output: %.100v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := h.run(ctx, home, program(t, "sleep 1000 & wait"), nil); fault.KindOf(err) != fault.Timeout {
		t.Errorf("%v", err)
	}
}

// TestRepairCommand checks that each hint is a command that repairs exactly the given server.
func TestRepairCommand(t *testing.T) {
	for _, c := range []struct {
		host string
		f    Finding
		want string
	}{
		{"claude-code", Finding{Name: "pyro", Scope: ScopeUser}, "pyro host repair claude-code"},
		{"claude-code", Finding{Name: "p", Scope: ScopeProject, Profile: "vm-run"}, "pyro host repair claude-code --name p --profile vm-run --scope project"},
		{"claude-code", Finding{Name: "pyro", Scope: ScopeLocal, Profile: "workspace-core"}, "claude mcp remove --scope local pyro"},
		{"codex", Finding{Name: "a b", Scope: ScopeUser}, "pyro host repair codex --name 'a b'"},
		{"cursor", Finding{Name: "pyro", Scope: ScopeUser}, "pyro host print-config cursor"},
		{"opencode", Finding{Name: "pyro", Scope: ScopeUser}, "pyro host repair opencode"},
		{"opencode", Finding{Name: "pyro", Scope: ScopeProject}, "pyro host print-config opencode"},
	} {
		h, err := Find(c.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.repairCommand(c.f); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestBoundedLimitsCopy checks that io.Copy, which the pipes use, can't exceed the limit of
// bounded.
func TestBoundedLimitsCopy(t *testing.T) {
	said := &bounded{most: 8}
	n, err := io.Copy(said, strings.NewReader(strings.Repeat("x", 1<<20)))
	if n != 1<<20 || err != nil || string(said.data) != "xxxxxxxx" {
		t.Errorf("%d bytes were copied, %d are kept: %v", n, len(said.data), err)
	}
}
