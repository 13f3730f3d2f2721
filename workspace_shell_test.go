package pyro

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// readUntil reads the plain output of a shell until it contains a text.
func readUntil(t *testing.T, p *Pyro, id, shell string, text string) *ShellOutput {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; {
		out, err := p.ReadShell(t.Context(), ReadShellRequest{WorkspaceID: id, ShellID: shell, Plain: true, WaitForIdleMS: 100})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Output, text) {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("output %q did not arrive: got %q", text, out.Output)
		}
	}
}

func TestShellPlainText(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	s, err := p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Cols: 100, Env: map[string]string{"PS1": "> ", "A": "b c", "HOME": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if s.WorkspaceID != id || s.State != ShellRunning || s.Cwd != WorkspacePath || s.Cols != 100 || s.Rows != 30 || s.ExecutionMode != HostCompat || s.ExitCode != nil {
		t.Errorf("%+v", s)
	}
	in, err := p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: `printf '\033[31m%s\033[0m\r\n' "$A"; printf 'overwr\rwritten\n'; stty size`})
	if err != nil || !in.AppendNewline || in.InputLength == 0 {
		t.Errorf("%+v, %v", in, err)
	}
	out := readUntil(t, p, id, s.ShellID, "30 100")
	if !strings.Contains(out.Output, "\nb c\n") || !strings.Contains(out.Output, "\nwritten\n") || strings.ContainsAny(out.Output, "\x1b\r") || !out.Plain || out.Truncated {
		t.Errorf("%+v", out)
	}
	raw, err := p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: s.ShellID, MaxChars: 10})
	if err != nil || len(raw.Output) != 10 || !raw.Truncated || raw.Cursor != 0 || raw.NextCursor != 10 {
		t.Errorf("%+v, %v", raw, err)
	}
	no := false
	if _, err := p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: "exit 3", AppendNewline: &no}); err != nil {
		t.Error(err)
	}
	if _, err := p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: "\n", AppendNewline: &no}); err != nil {
		t.Error(err)
	}
	for out.State != ShellStopped {
		if out, err = p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: s.ShellID, Cursor: out.NextCursor, WaitForIdleMS: 50}); err != nil {
			t.Fatal(err)
		}
	}
	if out.ExitCode == nil || *out.ExitCode != 3 || out.EndedAt == nil {
		t.Errorf("%+v", out)
	}
	closed, err := p.CloseShell(ctx, id, s.ShellID)
	if err != nil || !closed.Closed || closed.State != ShellStopped || *closed.ExitCode != 3 {
		t.Errorf("%+v, %v", closed, err)
	}
	again, err := p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Env: map[string]string{"HOME": t.TempDir()}})
	if err != nil || again.ShellID == s.ShellID {
		t.Errorf("a new one: %+v, %v", again, err)
	}
	if all, err := p.ListShells(ctx, id); err != nil || all.Count != 1 || all.Shells[0].ShellID != again.ShellID {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := p.StopWorkspace(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := p.StartWorkspace(ctx, StartWorkspaceRequest{WorkspaceID: id}); err != nil {
		t.Error(err)
	}
	if all, err := p.ListShells(ctx, id); err != nil || all.Count != 0 {
		t.Errorf("after a stop: %+v, %v", all, err)
	}
}

// TestLongLineIsRefused checks that a shell refuses a line that its terminal would cut off. A
// program that reads single keys gets all of the line.
func TestLongLineIsRefused(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	s, err := p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Env: map[string]string{"PS1": "> ", "HOME": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	no := false
	write := func(text string, newline *bool) error {
		return only(p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: text, AppendNewline: newline}))
	}
	if err := write("stty -echo; echo re''ady; read -r line; echo got ${#line}.; stty -icanon; echo k''eys; head -c 6000 | wc -c", nil); err != nil {
		t.Fatal(err)
	}
	readUntil(t, p, id, s.ShellID, "ready\n")
	if err := write(strings.Repeat("x", 6000), nil); KindOf(err) != Invalid || !strings.Contains(err.Error(), "a line of 6000 bytes") || HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	if err := write(strings.Repeat("x", 3000), &no); err != nil {
		t.Error(err)
	}
	if err := write(strings.Repeat("x", 1096), nil); KindOf(err) != Invalid || !strings.Contains(err.Error(), "a line of 4096 bytes") {
		t.Errorf("%v", err)
	}
	if err := write(strings.Repeat("x", 1095), nil); err != nil {
		t.Error(err)
	}
	readUntil(t, p, id, s.ShellID, "got 4095.\n")
	readUntil(t, p, id, s.ShellID, "keys\n")
	if err := write(strings.Repeat("x", 6000), nil); err != nil {
		t.Error(err)
	}
	readUntil(t, p, id, s.ShellID, "\n6000\n")
}

func TestShellRequestsAreChecked(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	for name, err := range map[string]error{
		"columns":      only(p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Cols: 1001})),
		"rows":         only(p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Rows: -1})),
		"environment":  only(p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Env: map[string]string{"": "x"}})),
		"characters":   only(p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: "s", MaxChars: MaxReadChars + 1})),
		"cursor":       only(p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: "s", Cursor: -1})),
		"idleness":     only(p.ReadShell(ctx, ReadShellRequest{WorkspaceID: id, ShellID: "s", WaitForIdleMS: MaxWaitForIdleMS + 1})),
		"a long input": only(p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: "s", Input: strings.Repeat("x", MaxShellInput)})),
		"signal":       only(p.SignalShell(ctx, SignalShellRequest{WorkspaceID: id, ShellID: "s", SignalName: "STOP"})),
		"another size": only(p.ResizeShell(ctx, ResizeShellRequest{WorkspaceID: id, ShellID: "s", Cols: 80})),
	} {
		if KindOf(err) != Invalid {
			t.Errorf("%s: %s: %v", name, KindOf(err), err)
		}
	}
	if err := only(p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Cwd: "/no/such"})); KindOf(err) != Precondition {
		t.Errorf("missing folder: got %v", err)
	}
}

// person simulates a person at a terminal.
type person struct {
	keys *io.PipeWriter
	done chan error

	mu   sync.Mutex
	seen bytes.Buffer
	last *Shell
}

func (w *person) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(b)
}

func (w *person) sees(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		seen := w.seen.String()
		w.mu.Unlock()
		if strings.Contains(seen, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("output %q did not arrive: got %q", text, seen)
		}
	}
}

func attach(ctx context.Context, p *Pyro, id, shell string, resize chan WindowSize) *person {
	keys, w := io.Pipe()
	one := &person{keys: w, done: make(chan error, 1)}
	go func() {
		var err error
		one.last, err = p.AttachShell(ctx, AttachShellRequest{
			WorkspaceID: id, ShellID: shell, Stdin: keys, Stdout: one, TTY: &TTY{Size: WindowSize{90, 40}, Resize: resize}, DetachKey: 0x1d,
		})
		keys.Close()
		one.done <- err
	}()
	return one
}

func TestPersonAttachesToAgentShell(t *testing.T) {
	p := withWorkspaces(t)
	ctx := t.Context()
	id := p.create(t, nil)
	s, err := p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Env: map[string]string{"PS1": "> ", "HOME": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if _, err := p.WriteShell(ctx, WriteShellRequest{WorkspaceID: id, ShellID: s.ShellID, Input: text}); err != nil {
			t.Fatal(err)
		}
	}
	write("echo from the $((1+1))nd agent")
	readUntil(t, p, id, s.ShellID, "from the 2nd agent")
	resize := make(chan WindowSize)
	one := attach(ctx, p, id, s.ShellID, resize)
	one.sees(t, "from the 2nd agent")
	io.WriteString(one.keys, "stty size; echo from the $((1+2))rd person\r")
	one.sees(t, "40 90")
	one.sees(t, "from the 3rd person")
	readUntil(t, p, id, s.ShellID, "from the 3rd person")
	write("echo and the $((2+2))th")
	one.sees(t, "and the 4th")
	io.WriteString(one.keys, `printf 'half \303'; read -r x`+"\r")
	one.sees(t, "half \xc3") // the first byte of a character is printed immediately
	io.WriteString(one.keys, "\r")
	resize <- WindowSize{70, 20}
	testenv.Eventually(t, "the shell has the new size", func() bool {
		all, err := p.ListShells(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return all.Shells[0].Cols == 70 && all.Shells[0].Rows == 20
	})
	io.WriteString(one.keys, "unfinished\x1dnot typed")
	if err := <-one.done; err != nil || one.last.State != ShellRunning {
		t.Errorf("detached: %+v, %v", one.last, err)
	}
	out := readUntil(t, p, id, s.ShellID, "unfinished")
	if strings.Contains(out.Output, "not typed") {
		t.Errorf("input after the detach key was typed: %q", out.Output)
	}
	write("\x15exit 4") // Ctrl-U
	two := attach(ctx, p, id, s.ShellID, nil)
	if err := <-two.done; err != nil || two.last.State != ShellStopped || two.last.ExitCode == nil || *two.last.ExitCode != 4 {
		t.Errorf("to its end: %+v, %v", two.last, err)
	}
	gone, cancel := context.WithCancel(ctx)
	three, err := p.OpenShell(ctx, OpenShellRequest{WorkspaceID: id, Env: map[string]string{"HOME": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	last := attach(gone, p, id, three.ShellID, nil)
	readUntil(t, p, id, three.ShellID, "")
	cancel()
	if err := <-last.done; KindOf(err) != Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
