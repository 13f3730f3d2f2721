package daemon

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestShells tests shells. All subtests share one machine.
func TestShells(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"continues between reads": testShellContinues, "much output": testShellOutput, "a flood": testShellFlood, "signals": testShellSignals, "ends": testShellEnds,
			"the alternate screen": testShellScreen, "plain text": testShellPlain, "unread input": testShellInput, "errors": testShellRefusals, "size": testShellSize, "waiting": testShellWaiting,
			"a slow prompt": testShellPrompt, "a slow answer": testShellAnswer, "no answer": testShellSilent, "an early signal": testShellEarlySignal,
			"a slow signal": testShellSlowSignal,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
	if all, err := c.Shells(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d remain: %v", len(all), err)
	}
	if rows := h.history(t); len(rows) != 0 {
		t.Errorf("%d are in the history of commands", len(rows))
	}
}

// open opens a shell that runs a script. It closes the shell when the test ends.
func open(t *testing.T, c *remote.Client, script string, args ...string) *shellUser {
	t.Helper()
	s, err := c.OpenShell(t.Context(), program.Command{Argv: append([]string{"/bin/sh", "-c", script, "-"}, args...), Cwd: "/workspace", TTY: &program.Terminal{Cols: 80, Rows: 24}})
	check(t, err)
	u := &shellUser{t: t, client: c, id: s.ID}
	t.Cleanup(func() {
		if u.id != "" {
			u.close()
		}
	})
	return u
}

// openPrompting opens a shell that prints a prompt when it is ready.
func openPrompting(t *testing.T, c *remote.Client, script string) *shellUser {
	t.Helper()
	s, err := c.OpenPrompting(t.Context(), program.Command{Argv: []string{"/bin/sh", "-c", script}, Cwd: "/workspace", TTY: &program.Terminal{Cols: 80, Rows: 24}})
	check(t, err)
	u := &shellUser{t: t, client: c, id: s.ID}
	t.Cleanup(func() { u.close() })
	return u
}

// shellUser reads from and writes to a shell.
type shellUser struct {
	t      *testing.T
	client *remote.Client
	id     string
	cursor int64
	seen   bytes.Buffer
}

func (u *shellUser) close() remote.Shell {
	u.t.Helper()
	s, err := u.client.CloseShell(context.WithoutCancel(u.t.Context()), u.id)
	check(u.t, err)
	u.id = ""
	return s
}

func (u *shellUser) write(text string) {
	u.t.Helper()
	_, err := u.client.WriteShell(u.t.Context(), u.id, []byte(text))
	check(u.t, err)
}

// read waits for new output and returns it.
func (u *shellUser) read(chars int) remote.ShellOutput {
	u.t.Helper()
	out, err := u.client.ReadShell(u.t.Context(), remote.ShellRead{ID: u.id, Cursor: u.cursor, Chars: chars, Wait: 20 * time.Second})
	check(u.t, err)
	if out.From != u.cursor+out.Dropped {
		u.t.Fatalf("read from %d at %d, %d were dropped", out.From, u.cursor, out.Dropped)
	}
	u.cursor = out.Next
	u.seen.Write(out.Data)
	return out
}

// await reads until the output contains a text. It returns all output.
func (u *shellUser) await(text string) string {
	u.t.Helper()
	for deadline := time.Now().Add(testenv.Patience); !strings.Contains(u.seen.String(), text); {
		if out := u.read(1000); time.Now().After(deadline) || !out.EndedAt.IsZero() && len(out.Data) == 0 {
			u.t.Fatalf("output %q did not arrive: got %q", text, u.seen.String())
		}
	}
	return u.seen.String()
}

// end reads until the shell has ended.
func (u *shellUser) end() remote.Shell {
	u.t.Helper()
	for {
		if out := u.read(1 << 20); !out.EndedAt.IsZero() && !out.More {
			return out.Shell
		}
	}
}

func testShellContinues(t *testing.T, h *home, c *remote.Client) {
	u := open(t, c, `x=1; while read -r line; do x=$((x * 3)); echo "$line: $x $(pwd)"; done`)
	u.write("first\n")
	u.await("first: 3 ")
	other, err := remote.Dial(t.Context(), h.folder)
	check(t, err)
	defer other.Close()
	_, err = other.WriteShell(t.Context(), u.id, []byte("sec"))
	check(t, err)
	u.write("ond\n")
	if seen := u.await("second: 9"); strings.Count(seen, "first: ") != 1 {
		t.Errorf("%q", seen)
	}
	out, err := other.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 1000})
	if err != nil || !strings.Contains(string(out.Data), "first: 3") || out.From != 0 {
		t.Errorf("another reads %q, %v", out.Data, err)
	}
	all, err := other.Shells(t.Context())
	found := false
	for _, s := range all {
		found = found || s.ID == u.id && s.EndedAt.IsZero() && s.Exit == nil && s.Cwd == "/workspace" && s.OutputBytes > 0
	}
	if err != nil || !found {
		t.Errorf("the list is %+v, %v", all, err)
	}
	if s := u.close(); s.EndedAt.IsZero() {
		t.Errorf("closed: %+v", s)
	}
	if _, err := other.ReadShell(t.Context(), remote.ShellRead{ID: all[0].ID, Chars: 1}); err != nil && fault.KindOf(err) != fault.NotFound {
		t.Errorf("after it was closed: %v", err)
	}
}

func testShellOutput(t *testing.T, _ *home, c *remote.Client) {
	const lines = 200_000
	u := open(t, c, `stty raw -echo; seq -f "%06.0f line é" `+fmt.Sprint(lines))
	last := u.end()
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&want, "%06d line é\n", i+1)
	}
	if !bytes.Equal(u.seen.Bytes(), want.Bytes()) || last.OutputBytes != int64(want.Len()) {
		t.Errorf("read %d of %d bytes, and the shell reports %d", u.seen.Len(), want.Len(), last.OutputBytes)
	}
	if last.Exit == nil || last.Exit.Code != 0 {
		t.Errorf("it ended with %+v", last.Exit)
	}
}

// testShellFlood checks a shell that prints more than is kept while no client reads.
func testShellFlood(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `stty raw -echo; head -c $((24 << 20)) /dev/zero; echo end`)
	deadline := time.Now().Add(testenv.Patience)
	for {
		out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: 1 << 60, Chars: 1})
		check(t, err)
		if !out.EndedAt.IsZero() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it waits for a reader")
		}
		time.Sleep(10 * time.Millisecond)
	}
	out := u.read(1 << 20)
	if out.Dropped < 15<<20 || out.From != out.Dropped || !out.More {
		t.Errorf("%+v", out)
	}
	if u.end(); !strings.HasSuffix(u.seen.String(), "end\n") || u.seen.Len() > shellOutput {
		t.Errorf("%d bytes were seen", u.seen.Len())
	}
}

func testShellSignals(t *testing.T, _ *home, c *remote.Client) {
	// Each job prints its start itself. By then it is in the foreground, so SIGKILL can't hit the
	// shell.
	u := open(t, c, `set -m; trap 'echo the shell itself' INT TERM; for i in 1 2 3; do sh -c "echo start $i; exec sleep 1000"; echo "end $i: $?"; done`)
	for i, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		u.await(fmt.Sprintf("start %d", i+1))
		_, err := c.SignalShell(t.Context(), u.id, sig)
		check(t, err)
		u.await(fmt.Sprintf("end %d: %d", i+1, 128+sig))
	}
}

func testShellEnds(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `echo last words; exit 7`)
	if s := u.end(); s.Exit == nil || s.Exit.Code != 7 || s.Broken != "" || s.EndedAt.IsZero() || u.seen.String() != "last words\r\n" {
		t.Errorf("%+v, %q", s, u.seen.String())
	}
	for name, err := range map[string]error{
		"write":  only(c.WriteShell(t.Context(), u.id, []byte("x"))),
		"signal": only(c.SignalShell(t.Context(), u.id, syscall.SIGINT)),
		"resize": only(c.ResizeShell(t.Context(), u.id, 10, 10)),
	} {
		if fault.KindOf(err) != fault.Precondition {
			t.Errorf("%s after its end: %v", name, err)
		}
	}
	if s := u.close(); s.Exit == nil || s.Exit.Code != 7 {
		t.Errorf("closed: %+v", s)
	}
	stubborn := open(t, c, `trap '' HUP TERM INT; echo deaf; sleep 1000`)
	stubborn.await("deaf")
	began := time.Now()
	if s := stubborn.close(); s.EndedAt.IsZero() || time.Since(began) > testenv.Patience {
		t.Errorf("program that ignores signals: got %+v after %v", s, time.Since(began))
	}
}

func only[T any](_ T, err error) error { return err }

func testShellScreen(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `printf 'before\n\033[?1049h\033[Hfirst'; read -r x; printf '\033[2;1Hsecond'; read -r x; printf '\033[?1049lafter'; read -r x`)
	u.await("first")
	u.write("\n")
	from := u.cursor
	u.await("second")
	out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: from, Chars: 1000, Screen: true})
	check(t, err)
	if string(out.Before) != "\x1b[?1049h\x1b[Hfirst" || !strings.Contains(string(out.Data), "second") {
		t.Errorf("%q before %q", out.Before, out.Data)
	}
	u.write("\n")
	u.await("after")
	if out, err = c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: u.cursor, Chars: 1000, Screen: true}); err != nil || len(out.Before) != 0 {
		t.Errorf("after its end: %q, %v", out.Before, err)
	}
}

// testShellPlain reads the text of a screen in pieces that end within control sequences.
func testShellPlain(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `stty -echo; printf '1\033[38;5;200m2\033]0;title 本\00734\033['; read -r x; printf '0m56\033[3'; read -r x`)
	plain := func(chars int) (seen string) {
		for {
			out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: u.cursor, Chars: chars, Plain: true})
			check(t, err)
			seen += string(out.Plain)
			if u.cursor = out.Next; !out.More {
				return seen
			}
		}
	}
	u.await("4\x1b[")
	for chars := 12; chars < 40; chars++ {
		u.cursor = 0
		if seen := plain(chars); seen != "1234" {
			t.Errorf("pieces of %d characters: %q", chars, seen)
		}
	}
	from := u.cursor
	u.cursor = 0
	plain(1) // comes to its end, although no piece has a whole sequence
	u.write("\n")
	u.await("6\x1b[3")
	if u.cursor = from; plain(1000) != "56" {
		t.Errorf("from %d", from)
	}
	from = u.cursor
	u.write("\n")
	s := u.end()
	if u.cursor = from; plain(1000) != "" || u.cursor != s.OutputBytes {
		t.Errorf("%d of %d bytes are read", u.cursor, s.OutputBytes)
	}
}

func testShellInput(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `stty raw -echo; echo ready; sleep 1000`)
	u.await("ready")
	piece := make([]byte, 128<<10)
	for i := 0; ; i++ {
		_, err := c.WriteShell(t.Context(), u.id, piece)
		if fault.KindOf(err) == fault.Exhausted {
			break
		}
		check(t, err)
		if i > 100 {
			t.Fatal("it accepts more than the limit")
		}
	}
	u.close()
}

func testShellRefusals(t *testing.T, _ *home, c *remote.Client) {
	ctx := t.Context()
	u := open(t, c, "sleep 1000")
	tty := &program.Terminal{Cols: 80, Rows: 24}
	for name, one := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"no program":       {only(c.OpenShell(ctx, program.Command{TTY: tty})), fault.Invalid},
		"no terminal":      {only(c.OpenShell(ctx, program.Command{Argv: []string{"true"}})), fault.Invalid},
		"a huge terminal":  {only(c.OpenShell(ctx, program.Command{Argv: []string{"true"}, TTY: &program.Terminal{Cols: 1001, Rows: 1}})), fault.Invalid},
		"no such program":  {only(c.OpenShell(ctx, program.Command{Argv: []string{"/no/such"}, TTY: tty})), fault.Precondition},
		"no such folder":   {only(c.OpenShell(ctx, program.Command{Argv: []string{"true"}, Cwd: "/no/such", TTY: tty})), fault.Precondition},
		"no such shell":    {only(c.ReadShell(ctx, remote.ShellRead{ID: "sh-0", Chars: 1})), fault.NotFound},
		"no characters":    {only(c.ReadShell(ctx, remote.ShellRead{ID: u.id})), fault.Invalid},
		"a cursor below 0": {only(c.ReadShell(ctx, remote.ShellRead{ID: u.id, Cursor: -1, Chars: 1})), fault.Invalid},
		"no signal":        {only(c.SignalShell(ctx, u.id, 0)), fault.Invalid},
		"signal 65":        {only(c.SignalShell(ctx, u.id, 65)), fault.Invalid},
		"no size":          {only(c.ResizeShell(ctx, u.id, 0, 10)), fault.Invalid},
		"close none":       {only(c.CloseShell(ctx, "")), fault.NotFound},
	} {
		if fault.KindOf(one.err) != one.kind {
			t.Errorf("%s: %v", name, one.err)
		}
	}
	_, err := c.OpenTagged(ctx, "background", program.Command{Argv: []string{"/no/such"}}, false)
	if err == nil || !strings.HasPrefix(err.Error(), "start command: ") {
		t.Errorf("a command in the background: %v", err)
	}
}

func testShellSize(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done`)
	u.await("24 80")
	s, err := c.ResizeShell(t.Context(), u.id, 132, 50)
	if err != nil || s.Cols != 132 || s.Rows != 50 {
		t.Errorf("%+v, %v", s, err)
	}
	u.await("50 132")
}

func testShellWaiting(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; sleep 1000`)
	out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 1000, Idle: 3 * time.Second})
	if err != nil || string(out.Data) != "1\r\n2\r\n3\r\n4\r\n5\r\n" {
		t.Errorf("until it is quiet: %q, %v", out.Data, err)
	}
	began := time.Now()
	out, err = c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: out.Next, Chars: 1000, Wait: 200 * time.Millisecond})
	if took := time.Since(began); err != nil || len(out.Data) != 0 || took < 200*time.Millisecond || took > testenv.Patience {
		t.Errorf("wait without output: got %q, %v after %v", out.Data, err, took)
	}
}

// readIdle waits until the shell is idle, and returns the new output.
func (u *shellUser) readIdle(idle time.Duration) string {
	u.t.Helper()
	out, err := u.client.ReadShell(u.t.Context(), remote.ShellRead{ID: u.id, Cursor: u.cursor, Chars: 1000, Idle: idle})
	check(u.t, err)
	u.cursor = out.Next
	return string(out.Data)
}

// testShellPrompt checks that a starting shell does not count as idle. It also checks that early
// input is echoed after the prompt.
func testShellPrompt(t *testing.T, _ *home, c *remote.Client) {
	u := openPrompting(t, c, `sleep 1; printf 'ready> '; read -r x; echo "got $x"; sleep 1000`)
	if seen := u.readIdle(100 * time.Millisecond); seen != "ready> " {
		t.Errorf("first read: got %q", seen)
	}
	early := openPrompting(t, c, `sleep 1; printf 'ready> '; read -r x; echo "got $x"; sleep 1000`)
	early.write("this\n")
	if seen := early.await("got"); !strings.HasPrefix(seen, "ready> this\r\n") {
		t.Errorf("typed early: %q", seen)
	}
}

// testShellAnswer checks that a program counts as idle only after it has reacted to input.
func testShellAnswer(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `stty -echo; printf '> '; while read -r x; do sleep 1; printf 'answer %s> ' "$x"; done`)
	u.await("> ")
	u.returnsAtOnce()
	u.write("1\n")
	if seen := u.readIdle(100 * time.Millisecond); seen != "answer 1> " {
		t.Errorf("after input: %q", seen)
	}
}

// testShellSilent checks that a read from a silent program returns, and that later reads do not
// wait again.
func testShellSilent(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `sleep 1000`)
	began := time.Now()
	if seen := u.readIdle(100 * time.Millisecond); seen != "" || time.Since(began) < replyPatience-time.Second {
		t.Errorf("%q after %v", seen, time.Since(began))
	}
	u.returnsAtOnce()
}

// returnsAtOnce checks that a read gets no output and does not wait for a reply. Each wait would
// take replyPatience. A busy host can delay a read as long, so one quick read of ten is enough.
func (u *shellUser) returnsAtOnce() {
	u.t.Helper()
	for range 10 {
		began := time.Now()
		if seen := u.readIdle(100 * time.Millisecond); seen != "" {
			u.t.Fatalf("with nothing to answer: %q", seen)
		}
		if time.Since(began) < replyPatience {
			return
		}
	}
	u.t.Error("each read waited for a reply")
}

// testShellEarlySignal checks that a signal waits for the prompt and for earlier input.
func testShellEarlySignal(t *testing.T, _ *home, c *remote.Client) {
	u := openPrompting(t, c, `sleep 1; trap 'echo interrupted' INT; printf 'ready> '; while :; do sleep 0.05; done`)
	_, err := c.SignalShell(t.Context(), u.id, syscall.SIGINT)
	check(t, err)
	u.await("interrupted")
	for i := range 5 {
		bash, err := c.OpenPrompting(t.Context(), program.Command{
			Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: []string{"PS1=> ", "HISTFILE="}, Cwd: "/workspace", TTY: &program.Terminal{Cols: 80, Rows: 24},
		})
		check(t, err)
		u := &shellUser{t: t, client: c, id: bash.ID}
		u.write("sleep 1000\n")
		_, err = c.SignalShell(t.Context(), u.id, syscall.SIGINT)
		check(t, err)
		u.write("echo status $?.\n")
		if seen := u.await("status 130."); t.Failed() {
			t.Fatalf("round %d: %q", i, seen)
		}
		u.close()
	}
}

// testShellSlowSignal sends a signal to a shell that discards input when it has handled the signal,
// as bash does. Input that is sent later must reach the shell.
func testShellSlowSignal(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `exec bash -c "$1"`, `
		trap 'for ((i = 0; i < 100000; i++)); do :; done; while read -t 0; do read -r line; done' INT
		echo ready.
		while :; do read -r line; echo "got $line."; done`)
	u.await("ready.")
	_, err := c.SignalShell(t.Context(), u.id, syscall.SIGINT)
	check(t, err)
	u.write("input\n")
	u.await("got input.")
}

// TestShellsAreBounded checks that only a limited number of shells can be open, and that a new
// shell can replace an ended one.
func TestShellsAreBounded(t *testing.T) {
	t.Parallel()
	_, c := live(t)
	var users []*shellUser
	for i := range maxShells {
		script := "sleep 1000"
		if i == 3 {
			script = "exit 5"
		}
		users = append(users, open(t, c, script))
	}
	for s := (remote.Shell{}); s.EndedAt.IsZero(); {
		out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: users[3].id, Chars: 1, Wait: time.Second})
		check(t, err)
		s = out.Shell
	}
	users = append(users, open(t, c, "sleep 1000"))
	if _, err := c.ReadShell(t.Context(), remote.ShellRead{ID: users[3].id, Chars: 1}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the one that has ended: %v", err)
	}
	users[3].id = ""
	_, err := c.OpenShell(t.Context(), program.Command{Argv: []string{"sleep", "1000"}, TTY: &program.Terminal{Cols: 1, Rows: 1}})
	if fault.KindOf(err) != fault.Exhausted {
		t.Errorf("one more: %v", err)
	}
	var wait sync.WaitGroup
	for _, u := range users {
		if u.id != "" {
			wait.Go(func() { u.close() })
		}
	}
	wait.Wait()
}
