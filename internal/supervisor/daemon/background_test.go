package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestBackground tests background programs and tags. All subtests share one machine.
func TestBackground(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"two outputs": testBackgroundOutputs, "input": testBackgroundInput, "tags": testTags, "killing": testKilling, "acknowledged": testAcked, "bytes": testRawReads,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
	if rows := h.history(t); len(rows) != 0 {
		t.Errorf("%d are in the history of commands", len(rows))
	}
}

// background starts a script in the background. It kills the script when the test ends.
func background(t *testing.T, c *remote.Client, tag, script string) remote.Shell {
	t.Helper()
	s, err := c.OpenTagged(t.Context(), tag, program.Command{Argv: []string{"/bin/sh", "-c", script}, Cwd: "/workspace"}, false)
	check(t, err)
	t.Cleanup(func() { c.CloseShell(t.Context(), s.ID) })
	return s
}

// readAll reads all output until the program has ended.
func readAll(t *testing.T, c *remote.Client, read remote.ShellRead) (string, remote.Shell) {
	t.Helper()
	var all bytes.Buffer
	read.Chars, read.Wait, read.Raw = 1000, 20*time.Second, true
	for {
		out, err := c.ReadShell(t.Context(), read)
		check(t, err)
		all.Write(out.Data)
		if read.Cursor = out.Next; !out.EndedAt.IsZero() && !out.More {
			return all.String(), out.Shell
		}
	}
}

func testBackgroundOutputs(t *testing.T, h *home, c *remote.Client) {
	s := background(t, c, "", `echo $$; echo wrong >&2; cat; exit 5`) // the script has no input, so cat ends immediately
	out, end := readAll(t, c, remote.ShellRead{ID: s.ID})
	errs, _ := readAll(t, c, remote.ShellRead{ID: s.ID, Errors: true})
	if out != fmt.Sprintln(s.PID) || errs != "wrong\n" || end.Exit == nil || end.Exit.Code != 5 || !s.InBackground() {
		t.Errorf("%+v printed %q and %q, and ended as %+v", s, out, errs, end)
	}
	shells, err := c.Shells(t.Context())
	check(t, err)
	all, err := c.Tagged(t.Context(), "")
	check(t, err)
	has := func(all []remote.Shell) bool {
		for _, one := range all {
			if one.ID == s.ID {
				return strings.HasPrefix(strings.Join(one.Argv, " "), "/bin/sh -c echo")
			}
		}
		return false
	}
	if has(shells) || !has(all) {
		t.Errorf("among those on terminals: %v, among all: %v", has(shells), has(all))
	}
	for name, err := range map[string]error{
		"write":       only(c.WriteShell(t.Context(), s.ID, []byte("x"))),
		"resize":      only(c.ResizeShell(t.Context(), s.ID, 10, 10)),
		"signal":      only(c.SignalShell(t.Context(), s.ID, syscall.SIGTERM)),
		"read errors": only(c.ReadShell(t.Context(), remote.ShellRead{ID: open(t, c, "sleep 1000").id, Chars: 1, Errors: true})),
	} {
		if fault.KindOf(err) != fault.Precondition {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func testBackgroundInput(t *testing.T, _ *home, c *remote.Client) {
	script := `read -r line; echo "out $line"; read -r line; echo "error $line" >&2; exec cat >/dev/null`
	s, err := c.OpenTagged(t.Context(), "", program.Command{Argv: []string{"/bin/sh", "-c", script}}, true)
	check(t, err)
	check(t, only(c.WriteShell(t.Context(), s.ID, []byte("one\ntw"))))
	testenv.Eventually(t, "the first line is read", func() bool {
		out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: s.ID, Chars: 100})
		return err == nil && string(out.Data) == "out one\n"
	})
	check(t, only(c.WriteShell(t.Context(), s.ID, []byte("o\n"))))
	testenv.Eventually(t, "the second line is read", func() bool {
		out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: s.ID, Chars: 100, Errors: true})
		return err == nil && string(out.Data) == "error two\n"
	})
	end, err := c.KillShell(t.Context(), s.ID)
	if err != nil || end.Exit == nil || end.Exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("killed: %+v, %v", end, err)
	}
	if err := only(c.WriteShell(t.Context(), s.ID, []byte("x"))); fault.KindOf(err) != fault.Precondition {
		t.Errorf("write after the end: %v", err)
	}
}

func testTags(t *testing.T, _ *home, c *remote.Client) {
	first := background(t, c, "tagged", "read -r line </dev/zero; sleep 1000")
	for _, tty := range []*program.Terminal{nil, {Cols: 80, Rows: 24}} {
		if _, err := c.OpenTagged(t.Context(), "tagged", program.Command{Argv: []string{"true"}, TTY: tty}, false); fault.KindOf(err) != fault.Exists {
			t.Errorf("a second one of its tag: %v", err)
		}
	}
	if all, err := c.Tagged(t.Context(), "tagged"); err != nil || len(all) != 1 || all[0].ID != first.ID || all[0].Tag != "tagged" || all[0].PID == 0 {
		t.Errorf("found by its tag: %+v, %v", all, err)
	}
	if all, err := c.Tagged(t.Context(), "another"); err != nil || len(all) != 0 {
		t.Errorf("look-up by another client: got %+v, %v", all, err)
	}
	check(t, only(c.KillShell(t.Context(), first.ID)))
	second := background(t, c, "tagged", "sleep 1000")
	if all, err := c.Tagged(t.Context(), "tagged"); err != nil || len(all) != 1 || all[0].ID != second.ID {
		t.Errorf("the next one of its tag: %+v, %v", all, err)
	}
	if _, err := c.OpenTagged(t.Context(), strings.Repeat("x", maxTag+1), program.Command{Argv: []string{"true"}}, false); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a long tag: %v", err)
	}
}

// testKilling checks that a program that ignores other signals can be killed with all its
// descendants.
func testKilling(t *testing.T, _ *home, c *remote.Client) {
	for _, tty := range []*program.Terminal{nil, {Cols: 80, Rows: 24}} {
		m := mark()
		s, err := c.OpenTagged(t.Context(), "", program.Command{
			Argv: []string{"/bin/sh", "-c", "trap '' HUP TERM; (trap '' HUP TERM; setsid sleep " + m + ") & sleep " + m}, TTY: tty,
		}, false)
		check(t, err)
		testenv.Eventually(t, "it runs", func() bool { return len(processes(t, m)) >= 3 })
		check(t, only(c.SignalShell(t.Context(), s.ID, syscall.SIGTERM)))
		end, err := c.KillShell(t.Context(), s.ID)
		if err != nil || end.EndedAt.IsZero() || end.Exit == nil || end.Exit.Signal != int(syscall.SIGKILL) {
			t.Errorf("killed: %+v, %v", end, err)
		}
		testenv.Eventually(t, "all of it is killed", func() bool { return processes(t, m) == nil })
		check(t, only(c.KillShell(t.Context(), s.ID)))
		check(t, only(c.CloseShell(t.Context(), s.ID)))
	}
}

// testAcked checks the offset of acknowledged output. Another reader can continue at that offset.
func testAcked(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, "stty raw -echo; printf first; read -r x; printf second; sleep 1000")
	u.await("first")
	check(t, only(c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 1, Acked: 3})))
	out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 1, Acked: 1}) // acknowledges less than the earlier reader
	if err != nil || out.AckedBytes != 3 {
		t.Errorf("acknowledged: got %d, %v", out.AckedBytes, err)
	}
	out, err = c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 1, Acked: 1 << 60})
	if err != nil || out.AckedBytes != out.OutputBytes {
		t.Errorf("acknowledgement beyond the end: got %d of %d, %v", out.AckedBytes, out.OutputBytes, err)
	}
}

// testRawReads checks that a raw read returns half a character before the other half has been
// printed.
func testRawReads(t *testing.T, _ *home, c *remote.Client) {
	u := open(t, c, `stty raw -echo; printf 'a\303'; read -r x; printf '\251'; sleep 1000`)
	cursor := int64(0)
	for got := ""; got != "a\xc3"; {
		out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: cursor, Chars: 10, Wait: 20 * time.Second, Raw: true})
		check(t, err)
		got, cursor = got+string(out.Data), out.Next
	}
	u.write("\n")
	out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Cursor: cursor, Chars: 10, Wait: 20 * time.Second, Raw: true})
	if err != nil || string(out.Data) != "\xa9" {
		t.Errorf("the other half is %q, %v", out.Data, err)
	}
}

// TestBackgroundIsBounded starts as many programs as are allowed. It checks that shells can still
// be opened, and that another program can start when one has ended.
func TestBackgroundIsBounded(t *testing.T) {
	t.Parallel()
	_, c := live(t)
	var all []remote.Shell
	for range maxBackground {
		all = append(all, background(t, c, "", "sleep 1000"))
	}
	if _, err := c.OpenTagged(t.Context(), "", program.Command{Argv: []string{"sleep", "1000"}}, false); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("one more: %v", err)
	}
	open(t, c, "sleep 1000").close()
	check(t, only(c.KillShell(t.Context(), all[7].ID)))
	background(t, c, "", "sleep 1000")
	if _, err := c.ReadShell(t.Context(), remote.ShellRead{ID: all[7].ID, Chars: 1}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the one that has ended: %v", err)
	}
}
