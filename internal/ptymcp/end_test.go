package ptymcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// sleeps reports whether the program sleep runs in a folder.
func sleeps(folder string) bool {
	folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range folders {
		at, _ := os.Readlink(link)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
		if at == folder && string(name) == "sleep\n" {
			return true
		}
	}
	return false
}

// TestSignals sends signals by their names, with and without the prefix SIG.
func TestSignals(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1"})
	id := w.spawn(t, `trap 'echo got one' USR1; trap 'echo got two' USR2; trap 'echo got stop' TSTP; trap 'echo got go' CONT
		echo ready; while :; do sleep 0.05; done`, args{"scope": "control"})
	w.until(t, id, "ready")
	for name, says := range map[string]string{"USR1": "got one", "SIGUSR2": "got two", "sigtstp": "got stop", "cont": "got go"} {
		w.object(t, "pty_signal", args{"session_id": id, "sig": name})
		w.until(t, id, says)
	}
}

// TestCloseRunsTraps closes sessions of shells, and checks that their slow EXIT traps finish.
func TestCloseRunsTraps(t *testing.T) {
	const traps = "trap 'sleep 0.3; echo cleaned > '$PWD/cleaned EXIT"
	for name, command := range map[string]string{
		"bash that is interactive": "PS1='ready ' exec bash --norc --noediting",
		"bash that runs a script":  "bash ./script",
		"bash itself":              traps + "; echo ready; sleep 1000",
		"sh that traps the signal": "sh ./sh-script",
		"a child of a shell":       "(exec bash ./script); true",
	} {
		for _, backend := range []string{"subprocess", "tmux"} {
			t.Run(name+" in "+backend, func(t *testing.T) {
				w := newWorld(t, nil)
				testenv.Eventually(t, "the trap finishes before its shell is killed", func() bool {
					folder := t.TempDir()
					for file, text := range map[string]string{
						"script":    traps + "; echo ready; sleep 1000",
						"sh-script": traps + "; trap 'exit 1' TERM HUP; echo ready; sleep 1000",
					} {
						if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					id := w.spawn(t, command, args{"cwd": folder, "backend": backend})
					w.until(t, id, "ready")
					if strings.Contains(name, "interactive") {
						w.text(t, "pty_write", args{"session_id": id, "data": traps + "; echo it is $((40 + 2))\n"})
						w.until(t, id, "it is 42")
					} else {
						testenv.Eventually(t, "the shell has started sleep", func() bool { return sleeps(folder) })
					}
					began := time.Now()
					w.text(t, "pty_close", args{"session_id": id})
					took := time.Since(began)
					b, err := os.ReadFile(filepath.Join(folder, "cleaned"))
					ran := err == nil && string(b) == "cleaned\n"
					if !ran && took < session.EndGrace {
						t.Fatalf("the trap did not finish within %v: %q, %v", took, b, err)
					}
					return ran
				})
			})
		}
	}
}
