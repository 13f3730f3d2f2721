package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestCloseRunsTraps closes sessions while a script runs, and checks that the slow EXIT trap of the
// script finishes. Without -short, each case runs several times, because a trap might be lost only
// in a rare race.
func TestCloseRunsTraps(t *testing.T) {
	t.Setenv(patientEnv, "1")
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	const script = `trap 'sleep 0.3; echo cleaned >"$0.cleaned"' EXIT; echo "rea""dy"; while :; do sleep 0.05; done`
	const interactive = `PS1='> ' exec bash --norc --noediting`
	for _, c := range []struct {
		name    string
		command string // $SCRIPT is the script
		typed   string
		then    string // typed when the script runs
	}{
		{"the program", `exec bash "$SCRIPT"`, "", ""},
		{"a child", `bash "$SCRIPT"; echo next`, "", ""},
		{"a grandchild of shells without traps", `(bash "$SCRIPT"; true); true`, "", ""},
		{"in the background", `bash "$SCRIPT" & wait; true`, "", ""},
		{"a job", interactive, "bash \"$SCRIPT\"\n", ""},
		{"a stopped job", interactive, "bash \"$SCRIPT\"\n", "\x1a"},
	} {
		for _, backend := range []session.Backend{session.Subprocess, session.Tmux} {
			t.Run(c.name+" in "+string(backend), func(t *testing.T) {
				for range rounds {
					m := tmuxManager(t)
					s := inTmux(c.command)
					file := filepath.Join(t.TempDir(), "script")
					if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
						t.Fatal(err)
					}
					s.Backend, s.Env = backend, map[string]string{"SCRIPT": file}
					info := spawn(t, m, s)
					if c.typed != "" {
						until(t, info, "> ")
						ask(t, info, session.Request{Op: session.OpInput, Data: []byte(c.typed)})
					}
					until(t, info, "ready")
					if c.then != "" {
						ask(t, info, session.Request{Op: session.OpInput, Data: []byte(c.then)})
						until(t, info, "Stopped")
					}
					began := time.Now()
					if err := m.Close(t.Context(), s.ID); err != nil {
						t.Fatal(err)
					}
					if b, err := os.ReadFile(file + ".cleaned"); err != nil || string(b) != "cleaned\n" {
						t.Errorf("the trap did not finish within %v: %q, %v", time.Since(began), b, err)
					}
				}
			})
		}
	}
}

// TestCloseRunsTrapsOfOrphans checks that EXIT traps also run in a session whose session process
// was killed.
func TestCloseRunsTrapsOfOrphans(t *testing.T) {
	m := tmuxManager(t)
	testenv.Eventually(t, "the trap finishes before its shell is killed", func() bool {
		cleaned := filepath.Join(t.TempDir(), "cleaned")
		info := spawn(t, m, inTmux(`(trap 'sleep 0.3; echo cleaned >`+cleaned+`' EXIT; echo ready; while :; do sleep 0.05; done); true`))
		until(t, info, "ready")
		killSessionProcess(t, info)
		began := time.Now()
		if err := m.Close(t.Context(), info.ID); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		b, err := os.ReadFile(cleaned)
		ran := err == nil && string(b) == "cleaned\n"
		if !ran && took < session.EndGrace {
			t.Fatalf("the trap did not finish within %v: %q, %v", took, b, err)
		}
		return ran
	})
}
