//go:build machine

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
)

// TestWorkspaceSession has a session be in a machine: what it runs, its terminal and its size, and nothing of it on the host.
func TestWorkspaceSession(t *testing.T) {
	p := workspaces(t)
	id := p.create()
	t.Setenv("PYRO_STATE_DIR", p.state)
	m := &session.Manager{Root: p.state + "/sessions", Program: func() (string, error) { return filepath.Abs("../bin/pyro") }, Grace: time.Hour}
	now := time.Now()
	info, err := m.Spawn(t.Context(), session.Spec{
		ID: session.NewID(now, os.Getpid()), Scope: session.ReadWrite, Command: "PS1='> ' exec bash --norc", Cwd: "/workspace", Cols: 90, Rows: 20,
		Backend: session.Workspace, WorkspaceID: id, OutputBytes: 1 << 20, CreatedAt: now, Env: map[string]string{"ANSWER": "42"},
	}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context(), info.ID)
	until := func(text string) {
		t.Helper()
		l, err := info.Folder.Log(session.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for began := time.Now(); ; {
			piece, err := l.Read(0, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(piece.Data), text) {
				return
			}
			if time.Since(began) > patience || piece.Ended {
				t.Fatalf("it did not print %q: %q", text, piece.Data)
			}
			info.Wait(t.Context(), session.Request{Cursor: piece.Next, Timeout: time.Second})
		}
	}
	typed := func(text string) {
		t.Helper()
		if _, err := info.Ask(t.Context(), session.Request{Op: session.OpInput, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	until("> ")
	typed("hostname; pwd; stty size; echo \"the answer is $ANSWER\"\n")
	until(id)
	until("/workspace")
	until("20 90")
	until("the answer is 42")
	if _, err := info.Ask(t.Context(), session.Request{Op: session.OpResize, Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	typed("stty size\n")
	until("30 100")
	typed("sleep 98765\n")
	until("sleep 98765")
	if err := m.Close(t.Context(), info.ID); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); p.shell(id, "grep -lz '^98765$' /proc/[0-9]*/cmdline | wc -l") != "0\n"; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("what it ran goes on in the machine")
		}
	}
}
