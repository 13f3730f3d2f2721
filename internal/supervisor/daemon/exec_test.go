package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// TestCommands runs all that is about commands alone in one machine.
func TestCommands(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"ends": testEnds, "input": testInput, "a terminal": testTerminal, "cancelling": testCancelling, "failing streams": testFailingStreams,
			"many at once": testManyAtOnce, "a slow reader": testSlowReader, "much output": testMuchOutput, "refusals": testRefusals, "signals": testSignals,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h, c)
			})
		}
	})
	rows := h.history(t)
	for i, row := range rows {
		if row.Sequence != i+1 || row.EndedAt.IsZero() || row.EndedAt.Before(row.StartedAt) {
			t.Errorf("row %d: %d, %v to %v", i, row.Sequence, row.StartedAt, row.EndedAt)
		}
	}
}

// row gives the entry of a command.
func (h *home) row(t *testing.T, exit remote.Exit) store.Command {
	t.Helper()
	for _, c := range h.history(t) {
		if c.Sequence == exit.Sequence {
			return c
		}
	}
	t.Fatalf("no command %d", exit.Sequence)
	return store.Command{}
}

func testEnds(t *testing.T, h *home, c *remote.Client) {
	for _, test := range []struct {
		command client.Command
		want    client.Exit
		out     string
		errs    string
	}{
		{sh("echo out; echo err >&2"), client.Exit{}, "out\n", "err\n"},
		{sh("exit 42"), client.Exit{Code: 42}, "", ""},
		{sh("kill -TERM $$"), client.Exit{Code: 143, Signal: 15}, "", ""},
		{client.Command{Argv: []string{"no-such-program"}}, client.Exit{Code: 127, StartFailure: true}, "", ""},
		{client.Command{Argv: []string{"/etc/passwd"}}, client.Exit{Code: 126, StartFailure: true}, "", ""},
		{client.Command{Argv: []string{"sh", "-c", "sleep 1000 & wait"}, Timeout: 100 * time.Millisecond}, client.Exit{Code: 124, TimedOut: true}, "", ""},
		{client.Command{Argv: []string{"sh", "-c", `printf %s "$A"; pwd`}, Env: []string{"A=ä "}, Cwd: "/usr/.."}, client.Exit{}, "ä /\n", ""},
		{client.Command{Argv: []string{"printf", "%s", "\x7f\u0085 \x01"}}, client.Exit{}, "\x7f\u0085 \x01", ""},
	} {
		var out, errs bytes.Buffer
		exit, err := c.Exec(t.Context(), test.command, nil, &out, &errs)
		if err != nil {
			t.Errorf("%q: %v", test.command.Argv, err)
			continue
		}
		row := h.row(t, exit)
		if exit.StartFailure && exit.Message == "" {
			t.Errorf("%q: nothing tells why it never ran", test.command.Argv)
		}
		if row.Result.NotRun != exit.Message || row.Result.DurationNS != int64(exit.Duration) {
			t.Errorf("%q: history has %+v of %+v", test.command.Argv, row.Result, exit)
		}
		got := exit.Exit
		if got.Signal != 0 && got.TimedOut {
			got.Code, got.Signal = 124, 0 // callers may see the signal that ended it
		}
		got.Duration, got.Message = 0, ""
		if got != test.want || out.String() != test.out || errs.String() != test.errs {
			t.Errorf("%q: %+v, %q, %q", test.command.Argv, got, out.String(), errs.String())
		}
		if r := row.Result; r.ExitCode != exit.Code || r.Signal != exit.Signal || r.TimedOut != exit.TimedOut || r.Broken != "" ||
			fmt.Sprint(row.Argv, row.Cwd) != fmt.Sprint(test.command.Argv, test.command.Cwd) || string(row.Stdout) != test.out || string(row.Stderr) != test.errs ||
			r.StdoutBytes != int64(len(test.out)) || r.StderrBytes != int64(len(test.errs)) {
			t.Errorf("%q: history: %+v", test.command.Argv, row)
		}
	}
}

func testInput(t *testing.T, _ *home, c *remote.Client) {
	text := make([]byte, 1<<20+17)
	rand.NewChaCha8([32]byte{1}).Read(text)
	for name, in := range map[string]io.Reader{
		"at once":      bytes.NewReader(text),
		"in pieces":    io.MultiReader(bytes.NewReader(text[:1]), bytes.NewReader(text[1:])),
		"with its end": eager{bytes.NewReader(text)},
	} {
		sum := sha256.New()
		if exit, err := c.Exec(t.Context(), client.Command{Argv: []string{"cat"}}, in, sum, nil); err != nil || exit.Code != 0 || [32]byte(sum.Sum(nil)) != sha256.Sum256(text) {
			t.Errorf("%s: %+v, %v, or not what was put in", name, exit, err)
		}
	}
	var out bytes.Buffer
	if _, err := c.Exec(t.Context(), client.Command{Argv: []string{"cat"}}, strings.NewReader(""), &out, nil); err != nil || out.Len() > 0 {
		t.Errorf("empty input: %q, %v", out.String(), err)
	}
	if exit, err := c.Exec(t.Context(), sh("exit 3"), bytes.NewReader(text), nil, nil); err != nil || exit.Code != 3 { // which nobody reads
		t.Errorf("a command that does not read: %+v, %v", exit, err)
	}
}

// eager gives the end of its input with the last bytes of it.
type eager struct{ *bytes.Reader }

func (e eager) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err == nil && e.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// watched lets a test wait for what is written.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.text.String(), text)
}

func testTerminal(t *testing.T, _ *home, c *remote.Client) {
	command := client.Command{
		ID: client.NewID(), TTY: &client.Terminal{Cols: 91, Rows: 37, Term: "vt100"},
		Argv: []string{"sh", "-c", `stty -echo size; echo "$TERM"; read line; stty size; echo "$line"`},
	}
	in, type_ := io.Pipe()
	var out watched
	done := make(chan error, 1)
	go func() {
		exit, err := c.Exec(context.Background(), command, in, &out, nil)
		if exit.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%+v", exit))
		}
		done <- err
	}()
	eventually(t, "the terminal has its size", func() bool { return out.has("37 91") && out.has("vt100") })
	check(t, c.Resize(t.Context(), command.ID, 123, 45))
	io.WriteString(type_, "typed\n")
	if err := <-done; err != nil || !out.has("45 123") || !out.has("typed") {
		t.Errorf("%v: %q", err, out.text.String())
	}
	type_.Close()
	if err := c.Resize(t.Context(), command.ID, 1, 1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a terminal that is gone was resized: %v", err)
	}
}

func testSignals(t *testing.T, _ *home, c *remote.Client) {
	command := sh(`trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.01; done`)
	command.ID = client.NewID()
	var out watched
	done := make(chan remote.Exit, 1)
	go func() {
		exit, err := c.Exec(context.Background(), command, nil, &out, nil)
		if err != nil {
			t.Error(err)
		}
		done <- exit
	}()
	eventually(t, "it is ready", func() bool { return out.has("ready") })
	for _, sig := range []syscall.Signal{0, 65, -1} {
		if err := c.Signal(t.Context(), command.ID, sig); fault.KindOf(err) != fault.Invalid {
			t.Errorf("signal %d: %v", sig, err)
		}
	}
	check(t, c.Signal(t.Context(), command.ID, syscall.SIGUSR1))
	if exit := <-done; exit.Code != 7 || !out.has("got it") {
		t.Errorf("%+v", exit)
	}
	if err := c.Signal(t.Context(), command.ID, syscall.SIGUSR1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("what has ended was signalled: %v", err)
	}
}

func testCancelling(t *testing.T, h *home, c *remote.Client) {
	enough := errors.New("enough")
	silent, typist := io.Pipe()
	defer typist.Close()
	for name, in := range map[string]io.Reader{"without input": nil, "with input": endless{}, "with input that does not come": silent} {
		m := mark()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		var out watched
		go func() {
			_, err := c.Exec(ctx, sh("echo here; sleep "+m+" & sleep "+m+"; :"), in, &out, nil)
			done <- err
		}()
		eventually(t, "it runs", func() bool { return len(processes(t, m)) >= 2 && out.has("here") })
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
		eventually(t, "all of it is killed", func() bool { return processes(t, m) == nil })
		eventually(t, "the history has its end", func() bool {
			for _, row := range h.history(t) {
				if strings.Contains(fmt.Sprint(row.Argv), m) {
					return endedEarly(row)
				}
			}
			return false
		})
	}
}

// endless is an input that gives a byte now and then.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return copy(b, "x"), nil
}

func testFailingStreams(t *testing.T, _ *home, c *remote.Client) {
	own := errors.New("the reader's own")
	m := mark()
	if _, err := c.Exec(t.Context(), sh("sleep "+m), io.MultiReader(strings.NewReader("x"), failing{own}), nil, nil); !errors.Is(err, own) {
		t.Errorf("an input that fails: %v", err)
	}
	eventually(t, "it is killed", func() bool { return processes(t, m) == nil })
	if _, err := c.Exec(t.Context(), sh("echo x; sleep "+m), nil, failing{own}, nil); !errors.Is(err, own) {
		t.Errorf("an output that fails: %v", err)
	}
	eventually(t, "it is killed", func() bool { return processes(t, m) == nil })
}

// failing can be neither read nor written.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func testManyAtOnce(t *testing.T, h *home, c *remote.Client) {
	const many = 50
	file := filepath.Join(t.TempDir(), "gate")
	var all sync.WaitGroup
	sequences := make([]int, many)
	for n := range many {
		all.Go(func() {
			var out bytes.Buffer
			exit, err := c.Exec(context.Background(), sh(fmt.Sprintf("echo x >> %s.%d; until test -e %s; do sleep 0.05; done; echo %d; exit %d", file, n, file, n, n)), nil, &out, nil)
			if err != nil || exit.Code != n || out.String() != fmt.Sprintln(n) {
				t.Errorf("%d: %+v, %v, %q", n, exit, err, out.String())
			}
			sequences[n] = exit.Sequence
		})
	}
	eventually(t, "all run at once", func() bool {
		running, _ := filepath.Glob(file + ".*")
		return len(running) == many
	})
	check(t, os.WriteFile(file, nil, 0o600))
	all.Wait()
	seen := map[int]bool{}
	for n, s := range sequences {
		if s == 0 || seen[s] {
			t.Errorf("%d has the number %d in the history", n, s)
		}
		seen[s] = true
	}
}

// gated is a writer that takes nothing before it is let.
type gated struct {
	open <-chan struct{}
	n    int64
}

func (g *gated) Write(b []byte) (int, error) {
	<-g.open
	g.n += int64(len(b))
	return len(b), nil
}

func testSlowReader(t *testing.T, _ *home, c *remote.Client) {
	const size = 16 << 20 // more than all buffers in between
	flag := filepath.Join(t.TempDir(), "done")
	open := make(chan struct{})
	slow := &gated{open: open}
	done := make(chan error, 1)
	go func() {
		exit, err := c.Exec(context.Background(), sh(fmt.Sprintf("head -c %d /dev/zero; touch %s", size, flag)), nil, slow, nil)
		if exit.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%+v", exit))
		}
		done <- err
	}()
	time.Sleep(500 * time.Millisecond)
	if _, err := os.Stat(flag); err == nil {
		t.Error("the command did not wait for its reader")
	}
	if _, out := run(t, c, "echo meanwhile"); out != "meanwhile\n" {
		t.Error("a slow reader keeps others waiting")
	}
	close(open)
	if err := <-done; err != nil || slow.n != size {
		t.Errorf("%d of %d bytes, %v", slow.n, size, err)
	}
}

func testMuchOutput(t *testing.T, h *home, c *remote.Client) {
	const count = 300_000
	sum, want := sha256.New(), sha256.New()
	for n := 1; n <= count; n++ {
		fmt.Fprintln(want, n)
	}
	exit, err := c.Exec(t.Context(), sh(fmt.Sprintf("seq %d; seq 20000 >&2", count)), nil, sum, nil)
	if err != nil || exit.Code != 0 || !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Errorf("%+v, %v, or other output", exit, err)
	}
	row := h.row(t, exit)
	for _, stream := range []struct {
		kept        []byte
		total       int64
		begin, last string
	}{
		{row.Stdout, row.Result.StdoutBytes, "1\n2\n3\n", "\n299999\n300000\n"},
		{row.Stderr, row.Result.StderrBytes, "1\n2\n3\n", "\n19999\n20000\n"},
	} {
		kept := string(stream.kept)
		head, rest, cut := strings.Cut(kept, "\n[… ")
		left, tail, _ := strings.Cut(rest, " bytes are not kept …]\n")
		if !cut || len(head) != store.OutputBytes/2 || len(tail) != store.OutputBytes/2 || left != fmt.Sprint(stream.total-store.OutputBytes) ||
			!strings.HasPrefix(head, stream.begin) || !strings.HasSuffix(tail, stream.last) {
			t.Errorf("of %d bytes are kept %d and %d, and %q are said to be left out", stream.total, len(head), len(tail), left)
		}
	}
}

func testRefusals(t *testing.T, _ *home, c *remote.Client) {
	for name, command := range map[string]client.Command{
		"no UTF-8":            {Argv: []string{"echo", "\xff"}},
		"no UTF-8 in the cwd": {Argv: []string{"true"}, Cwd: "/\xff"},
		"an id that is long":  {ID: strings.Repeat("x", 1000), Argv: []string{"true"}},
		"many megabytes":      {Argv: []string{"true", strings.Repeat("x", 10<<20)}},
	} {
		exit, err := c.Exec(t.Context(), command, nil, nil, nil)
		if k := fault.KindOf(err); k != fault.Invalid && k != fault.Exhausted {
			t.Errorf("%s: %+v, %s: %.300v", name, exit, k, err)
		}
	}
	if _, out := run(t, c, "echo well"); out != "well\n" {
		t.Errorf("got %q", out)
	}
}
