package pyro

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestDetachedCommands starts, reads, follows, waits for and kills commands in the background.
func TestDetachedCommands(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	start := func(script string) int {
		t.Helper()
		c, err := p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Command: script})
		if err != nil || c.State != CommandRunning && c.State != CommandExited || c.WorkspaceID != id {
			t.Fatalf("%+v, %v", c, err)
		}
		return c.Sequence
	}
	t.Run("output by cursor", func(t *testing.T) {
		n := start(`echo one; echo wrong >&2; until test -e go; do sleep 0.02; done; echo two; exit 3`)
		var stdout, stderr, cursor string
		for done := false; !done; {
			out, err := p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: n, Cursor: cursor, WaitSeconds: 20})
			if err != nil {
				t.Fatal(err)
			}
			stdout, stderr, cursor = stdout+out.Stdout, stderr+out.Stderr, out.NextCursor
			if stdout == "one\n" && stderr == "wrong\n" && out.State == CommandRunning {
				if all, err := p.ListCommands(t.Context(), id); err != nil || all.Count != 1 || all.Commands[0].Sequence != n {
					t.Errorf("listed: %+v, %v", all, err)
				}
				p.exec1(t, ExecWorkspaceRequest{WorkspaceID: id, Argv: []string{"touch", "go"}})
			}
			if done = out.State == CommandExited; done && (out.ExitCode == nil || *out.ExitCode != 3 || out.DroppedBytes != 0) {
				t.Errorf("%+v", out)
			}
		}
		if stdout != "one\ntwo\n" || stderr != "wrong\n" {
			t.Errorf("%q, %q", stdout, stderr)
		}
		if e := p.entry(t, id, n); e.Stdout != stdout || e.Stderr != stderr || *e.ExitCode != 3 || e.State != CommandExited {
			t.Errorf("history: %+v", e)
		}
	})
	t.Run("much output", func(t *testing.T) {
		n := start(`i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo "line $i"; done; printf '\303'`)
		var out bytes.Buffer
		dropped := int64(0)
		c, err := p.FollowCommand(t.Context(), FollowCommandRequest{WorkspaceID: id, Sequence: n, Stdout: &out, Dropped: func(o, _ int64) { dropped += o }})
		if err != nil || c.State != CommandExited || *c.ExitCode != 0 || c.StdoutBytes != dropped+int64(out.Len()) || !strings.HasSuffix(out.String(), "line 200000\n\xc3") {
			t.Errorf("%+v, %v: %d bytes, %d dropped", c, err, out.Len(), dropped)
		}
	})
	t.Run("wait", func(t *testing.T) {
		n := start("sleep 0.5; exit 7")
		if c, err := p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: n}); err != nil || c.ExitCode == nil || *c.ExitCode != 7 {
			t.Errorf("%+v, %v", c, err)
		}
		n = start("sleep 1000")
		if c, err := p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: n, TimeoutSeconds: 1}); err != nil || c.State != CommandRunning || c.ExitCode != nil {
			t.Errorf("when the wait ends first: %+v, %v", c, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the caller left")
		time.AfterFunc(100*time.Millisecond, func() { cancel(left) })
		if _, err := p.WaitCommand(ctx, WaitCommandRequest{WorkspaceID: id, Sequence: n}); !errors.Is(err, left) {
			t.Errorf("cancelled: %v", err)
		}
		if c, err := p.KillCommand(t.Context(), KillCommandRequest{WorkspaceID: id, Sequence: n, SignalName: "TERM"}); err != nil || c.Sequence != n {
			t.Errorf("%+v, %v", c, err)
		}
		if c, err := p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: n}); err != nil || c.Signal != int(syscall.SIGTERM) || *c.ExitCode != 143 {
			t.Errorf("after SIGTERM: %+v, %v", c, err)
		}
	})
	t.Run("kill", func(t *testing.T) {
		n := start(`trap '' TERM; (setsid sleep 1000 & echo $!); wait; sleep 1000`)
		out, err := p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: n, WaitSeconds: 20})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c, err := p.KillCommand(t.Context(), KillCommandRequest{WorkspaceID: id, Sequence: n})
			if err != nil || c.State != CommandExited || c.Signal != int(syscall.SIGKILL) {
				t.Errorf("%+v, %v", c, err)
			}
		}
		child, err := strconv.Atoi(strings.TrimSpace(out.Stdout))
		if err != nil || syscall.Kill(child, 0) == nil && !isZombie(child) {
			t.Errorf("its child %d still runs, %v", child, err)
		}
	})
	t.Run("an attached command", func(t *testing.T) {
		done := make(chan *WorkspaceExecResult, 1)
		go func() {
			r, _ := p.ExecWorkspace(context.Background(), ExecWorkspaceRequest{WorkspaceID: id, Command: "echo attached; sleep 1000", Unlimited: true})
			done <- r
		}()
		var all *WorkspaceCommands
		for all == nil || all.Count == 0 {
			var err error
			if all, err = p.ListCommands(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		n := all.Commands[0].Sequence
		if out, err := p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: n, Cursor: "3:0"}); err != nil || out.State != CommandRunning || out.NextCursor != "3:0" {
			t.Errorf("%+v, %v", out, err)
		}
		if c, err := p.KillCommand(t.Context(), KillCommandRequest{WorkspaceID: id, Sequence: n}); err != nil || c.Signal != 9 {
			t.Errorf("%+v, %v", c, err)
		}
		if r := <-done; r == nil || r.Sequence != n || r.Signal != 9 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("limits and invalid requests", func(t *testing.T) {
		c, err := p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Argv: []string{"sleep", "1000"}, TimeoutSeconds: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: c.Sequence}); err != nil || !c.TimedOut || *c.ExitCode != 124 {
			t.Errorf("%+v, %v", c, err)
		}
		for what, err := range map[string]error{
			"no program":    only(p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id})),
			"a cursor":      only(p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: 1, Cursor: "1:2:3"})),
			"another one":   only(p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: 1, Cursor: "-1:2"})),
			"a signal":      only(p.KillCommand(t.Context(), KillCommandRequest{WorkspaceID: id, Sequence: 1, SignalName: "SEGV"})),
			"the wait":      only(p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: 1, WaitSeconds: 61})),
			"a time limit":  only(p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Command: "x", TimeoutSeconds: -1})),
			"another limit": only(p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: 1, TimeoutSeconds: -1})),
		} {
			if KindOf(err) != Invalid {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: 1000}); KindOf(err) != NotFound || HintOf(err) == "" {
			t.Errorf("no such command: %v", err)
		}
		if _, err := p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Argv: []string{"/no/such/program"}}); KindOf(err) != Precondition {
			t.Errorf("no such program: %v", err)
		}
	})
	t.Run("a stop", func(t *testing.T) {
		n := start("echo before; sleep 1000")
		followed := make(chan *WorkspaceCommand, 1)
		var out bytes.Buffer
		go func() {
			c, err := p.FollowCommand(context.Background(), FollowCommandRequest{WorkspaceID: id, Sequence: n, Stdout: &out})
			if err != nil {
				t.Error(err)
			}
			followed <- c
		}()
		if read, err := p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: n, WaitSeconds: 20}); err != nil || read.Stdout != "before\n" {
			t.Fatalf("%+v, %v", read, err)
		}
		if _, err := p.StopWorkspace(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if c := <-followed; c == nil || c.State != CommandInterrupted || c.Broken == "" || c.ExitCode != nil || out.String() != "before\n" {
			t.Errorf("%+v, %q", c, out.String())
		}
		read, err := p.ReadCommand(t.Context(), ReadCommandRequest{WorkspaceID: id, Sequence: n})
		if err != nil || read.State != CommandInterrupted || read.Stdout != "before\n" || read.Broken == "" {
			t.Errorf("afterwards: %+v, %v", read, err)
		}
		if w, err := p.StatusWorkspace(t.Context(), id); err != nil || w.State != StateStopped {
			t.Errorf("it is %s after the read, %v", w.State, err)
		}
		for what, err := range map[string]error{
			"wait":  only(p.WaitCommand(t.Context(), WaitCommandRequest{WorkspaceID: id, Sequence: n})),
			"kill":  only(p.KillCommand(t.Context(), KillCommandRequest{WorkspaceID: id, Sequence: n})),
			"start": only(p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Command: "true"})),
		} {
			if what == "start" && KindOf(err) != Precondition || what != "start" && err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// TestCommandCountsAsUse checks that the time to live of a workspace does not end a detached
// command.
func TestCommandCountsAsUse(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, func(r *CreateWorkspaceRequest) { r.TTLSeconds = 3600 })
	c, err := p.StartCommand(t.Context(), StartCommandRequest{WorkspaceID: id, Command: "sleep 3; echo done"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpdateWorkspace(t.Context(), UpdateWorkspaceRequest{WorkspaceID: id, TTLSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the command has ended", func() bool { return p.entry(t, id, c.Sequence).EndedAt != nil })
	if e := p.entry(t, id, c.Sequence); e.State != CommandExited || e.Stdout != "done\n" {
		t.Errorf("%+v", e)
	}
}
