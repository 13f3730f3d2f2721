//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// awaitShell reads the rendered output of a shell, using a cursor, until the output contains a
// text. It returns the complete output.
func (p *program) awaitShell(id, shell, text string) string {
	p.t.Helper()
	var seen strings.Builder
	cursor := 0
	for deadline := time.Now().Add(patience); ; {
		var out struct {
			Output     string
			NextCursor int `json:"next_cursor"`
			State      string
		}
		printed := p.must("workspace", "shell", "read", id, shell, "--json", "--plain", "--wait-for-idle-ms", "100", "--max-chars", "400", "--cursor", fmt.Sprint(cursor))
		if err := json.Unmarshal([]byte(printed), &out); err != nil {
			p.t.Fatal(err)
		}
		seen.WriteString(out.Output)
		cursor = out.NextCursor
		if strings.Contains(seen.String(), text) {
			return seen.String()
		}
		if time.Now().After(deadline) || out.State == "stopped" && out.Output == "" {
			p.t.Fatalf("output %q did not arrive: got %q", text, seen.String())
		}
	}
}

func (p *program) openShell(id string, args ...string) string {
	p.t.Helper()
	return strings.TrimSpace(p.must(append([]string{"workspace", "shell", "open", id, "--id-only"}, args...)...))
}

// TestShells covers the acceptance scenarios of shells. It writes, reads in pieces, interrupts and
// closes a shell. Then it opens another shell, and deletes the workspace while a shell is open.
func TestShells(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	shell := p.openShell(id, "--env", "PS1=> ")
	write := func(text string) { p.must("workspace", "shell", "write", id, shell, "--input", text) }

	write("cd /tmp; export KEPT=here; seq 1 100 | tr '\\n' ' '; echo seen $((6*7))")
	if seen := p.awaitShell(id, shell, "seen 42"); !strings.Contains(seen, " 98 99 100 ") {
		t.Errorf("%q", seen)
	}
	write("echo $KEPT in $PWD")
	p.awaitShell(id, shell, "here in /tmp")
	// A signal must reach the command that was typed before it, even if the command starts slowly.
	for sig, code := range map[string]string{"INT": "130", "TERM": "143"} {
		write("sleep 1000")
		p.must("workspace", "shell", "signal", id, shell, "--signal", sig)
		write("echo code $?.")
		p.awaitShell(id, shell, "code "+code+".")
	}
	first := p.openShell(id)
	p.awaitShell(id, first, "/workspace# ")
	p.must("workspace", "shell", "close", id, first)
	p.must("workspace", "shell", "resize", id, shell, "--cols", "77", "--rows", "33")
	write("stty size")
	p.awaitShell(id, shell, "33 77")
	p.must("workspace", "shell", "close", id, shell)
	if left := p.shell(id, "ps -e -o args | grep -c '[s]leep 100' || true"); strings.TrimSpace(left) != "0" {
		t.Errorf("%s processes of a closed shell still run", left)
	}

	second := p.openShell(id)
	p.must("workspace", "shell", "write", id, second, "--input", "echo ${KEPT:-nothing} is kept; sleep 1002 & sleep 1003")
	p.awaitShell(id, second, "nothing is kept")
	if list := p.must("workspace", "shell", "list", id); strings.Contains(list, shell) || !strings.Contains(list, second) {
		t.Errorf("%s", list)
	}
	p.must("workspace", "reset", id)
	if list := p.must("workspace", "shell", "list", id); strings.Contains(list, "sh-") {
		t.Errorf("after a reset: %s", list)
	}
	p.openShell(id)
	p.must("workspace", "delete", id) // the cleanup of workspaces checks that nothing remains
}

// TestShellFlood prints much more output than is stored, while no client reads.
func TestShellFlood(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	shell := p.openShell(id)
	p.must("workspace", "shell", "write", id, shell, "--input", "head -c 24M /dev/zero | tr '\\0' x; echo; echo flood over; exit 3")
	testenv.Eventually(t, "the shell has exited", func() bool { return strings.Contains(p.must("workspace", "shell", "list", id), "exit code 3") })
	out := p.object("workspace", "shell", "read", id, shell)
	if dropped, printed := out["dropped_bytes"].(float64), out["output_bytes"].(float64); dropped < 20<<20 || printed-dropped > 5<<20 || out["truncated"] != true {
		t.Errorf("%v of %v bytes are dropped", dropped, printed)
	}
	last := p.object("workspace", "shell", "read", id, shell, "--cursor", fmt.Sprintf("%.0f", out["output_bytes"].(float64)-100), "--plain")
	if text := last["output"].(string); !strings.HasSuffix(text, "\nflood over\nexit\n") && !strings.HasSuffix(text, "\nflood over\nlogout\n") && !strings.HasSuffix(text, "\nflood over\n") {
		t.Errorf("its last words are %q", text)
	}
}
