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

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/sqlite"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestCommands tests commands. All subtests share one machine.
func TestCommands(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *home, *remote.Client){
			"ends": testEnds, "input": testInput, "a terminal": testTerminal, "cancelling": testCancelling, "failing streams": testFailingStreams,
			"many at once": testManyAtOnce, "a slow reader": testSlowReader, "much output": testMuchOutput, "errors": testRefusals, "signals": testSignals,
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

// row returns the history entry of a command.
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
		command program.Command
		want    program.Exit
		out     string
		errs    string
	}{
		{sh("echo out; echo err >&2"), program.Exit{}, "out\n", "err\n"},
		{sh("exit 42"), program.Exit{Code: 42}, "", ""},
		{sh("kill -TERM $$"), program.Exit{Code: 143, Signal: 15}, "", ""},
		{program.Command{Argv: []string{"no-such-program"}}, program.Exit{Code: 127, NotRun: "x"}, "", ""},
		{program.Command{Argv: []string{"/etc/passwd"}}, program.Exit{Code: 126, NotRun: "x"}, "", ""},
		{program.Command{Argv: []string{"sh", "-c", "sleep 1000 & wait"}, Timeout: 100 * time.Millisecond}, program.Exit{Code: 124, TimedOut: true}, "", ""},
		{program.Command{Argv: []string{"sh", "-c", `printf %s "$A"; pwd`}, Env: []string{"A=ä "}, Cwd: "/usr/.."}, program.Exit{}, "ä /\n", ""},
		{program.Command{Argv: []string{"printf", "%s", "\x7f\u0085 \x01"}}, program.Exit{}, "\x7f\u0085 \x01", ""},
	} {
		var out, errs bytes.Buffer
		exit, err := c.Exec(t.Context(), test.command, program.Attach{Stdout: &out, Stderr: &errs})
		if err != nil {
			t.Errorf("%q: %v", test.command.Argv, err)
			continue
		}
		row := h.row(t, exit)
		if row.Result.NotRun != exit.NotRun || row.Result.Duration != exit.Duration {
			t.Errorf("%q: history has %+v of %+v", test.command.Argv, row.Result, exit)
		}
		got := exit.Exit
		if got.Signal != 0 && got.TimedOut {
			got.Code, got.Signal = 124, 0 // the exit can also contain the signal that ended the command
		}
		got.Duration = 0
		if got.NotRun != "" {
			got.NotRun = "x"
		}
		if got != test.want || out.String() != test.out || errs.String() != test.errs {
			t.Errorf("%q: %+v, %q, %q", test.command.Argv, got, out.String(), errs.String())
		}
		if r := row.Result; r.Code != exit.Code || r.Signal != exit.Signal || r.TimedOut != exit.TimedOut || r.Broken != "" ||
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
		"with its end": dataWithEOFReader{bytes.NewReader(text)},
	} {
		sum := sha256.New()
		if exit, err := c.Exec(t.Context(), program.Command{Argv: []string{"cat"}}, program.Attach{Stdin: in, Stdout: sum}); err != nil || exit.Code != 0 || [32]byte(sum.Sum(nil)) != sha256.Sum256(text) {
			t.Errorf("%s: got %+v, %v, or output that differs from the input", name, exit, err)
		}
	}
	var out bytes.Buffer
	if _, err := c.Exec(t.Context(), program.Command{Argv: []string{"cat"}}, program.Attach{Stdin: strings.NewReader(""), Stdout: &out}); err != nil || out.Len() > 0 {
		t.Errorf("empty input: %q, %v", out.String(), err)
	}
	if exit, err := c.Exec(t.Context(), sh("exit 3"), program.Attach{Stdin: bytes.NewReader(text)}); err != nil || exit.Code != 3 { // the command does not read its input
		t.Errorf("a command that does not read: %+v, %v", exit, err)
	}
}

// dataWithEOFReader is a reader that returns io.EOF together with the last bytes.
type dataWithEOFReader struct{ *bytes.Reader }

func (e dataWithEOFReader) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err == nil && e.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// watched is a writer that lets a test wait for a text in the output.
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
	command := program.Command{
		ID: program.NewID(), TTY: &program.Terminal{Cols: 91, Rows: 37, Term: "vt100"},
		Argv: []string{"sh", "-c", `stty -echo size; echo "$TERM"; read line; stty size; echo "$line"`},
	}
	in, type_ := io.Pipe()
	var out watched
	done := make(chan error, 1)
	go func() {
		exit, err := c.Exec(context.Background(), command, program.Attach{Stdin: in, Stdout: &out})
		if exit.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%+v", exit))
		}
		done <- err
	}()
	testenv.Eventually(t, "the terminal has its size", func() bool { return out.has("37 91") && out.has("vt100") })
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
	command.ID = program.NewID()
	var out watched
	done := make(chan remote.Exit, 1)
	go func() {
		exit, err := c.Exec(context.Background(), command, program.Attach{Stdout: &out})
		if err != nil {
			t.Error(err)
		}
		done <- exit
	}()
	testenv.Eventually(t, "it is ready", func() bool { return out.has("ready") })
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
		t.Errorf("signal to an ended command: got %v", err)
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
			_, err := c.Exec(ctx, sh("echo here; sleep "+m+" & sleep "+m+"; :"), program.Attach{Stdin: in, Stdout: &out})
			done <- err
		}()
		testenv.Eventually(t, "it runs", func() bool { return len(processes(t, m)) >= 2 && out.has("here") })
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
		testenv.Eventually(t, "all of it is killed", func() bool { return processes(t, m) == nil })
		testenv.Eventually(t, "the history has its end", func() bool {
			for _, row := range h.history(t) {
				if strings.Contains(fmt.Sprint(row.Argv), m) {
					return endedEarly(row)
				}
			}
			return false
		})
	}
}

// endless is a reader that never ends and returns one byte every 5 ms.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return copy(b, "x"), nil
}

func testFailingStreams(t *testing.T, _ *home, c *remote.Client) {
	own := errors.New("the reader's own")
	m := mark()
	if _, err := c.Exec(t.Context(), sh("sleep "+m), program.Attach{Stdin: io.MultiReader(strings.NewReader("x"), failing{own})}); !errors.Is(err, own) {
		t.Errorf("an input that fails: %v", err)
	}
	testenv.Eventually(t, "it is killed", func() bool { return processes(t, m) == nil })
	if _, err := c.Exec(t.Context(), sh("echo x; sleep "+m), program.Attach{Stdout: failing{own}}); !errors.Is(err, own) {
		t.Errorf("an output that fails: %v", err)
	}
	testenv.Eventually(t, "it is killed", func() bool { return processes(t, m) == nil })
}

// failing is a reader and writer that always fails.
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
			exit, err := c.Exec(context.Background(), sh(fmt.Sprintf("echo x >> %s.%d; until test -e %s; do sleep 0.05; done; echo %d; exit %d", file, n, file, n, n)), program.Attach{Stdout: &out})
			if err != nil || exit.Code != n || out.String() != fmt.Sprintln(n) {
				t.Errorf("%d: %+v, %v, %q", n, exit, err, out.String())
			}
			sequences[n] = exit.Sequence
		})
	}
	testenv.Eventually(t, "all run at once", func() bool {
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

// gated is a writer that blocks until its channel is closed.
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
	const size = 16 << 20 // more than all buffers between command and reader
	flag := filepath.Join(t.TempDir(), "done")
	open := make(chan struct{})
	slow := &gated{open: open}
	done := make(chan error, 1)
	go func() {
		exit, err := c.Exec(context.Background(), sh(fmt.Sprintf("head -c %d /dev/zero; touch %s", size, flag)), program.Attach{Stdout: slow})
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
		t.Error("a slow reader blocks others")
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
	exit, err := c.Exec(t.Context(), sh(fmt.Sprintf("seq %d; seq 20000 >&2", count)), program.Attach{Stdout: sum})
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
			t.Errorf("of %d bytes got %d and %d, and the notice %q", stream.total, len(head), len(tail), left)
		}
	}
}

func testRefusals(t *testing.T, _ *home, c *remote.Client) {
	for name, command := range map[string]program.Command{
		"no UTF-8":            {Argv: []string{"echo", "\xff"}},
		"no UTF-8 in the cwd": {Argv: []string{"true"}, Cwd: "/\xff"},
		"an id that is long":  {ID: strings.Repeat("x", 1000), Argv: []string{"true"}},
		"many megabytes":      {Argv: []string{"true", strings.Repeat("x", 10<<20)}},
	} {
		exit, err := c.Exec(t.Context(), command, program.Attach{})
		if k := fault.KindOf(err); k != fault.Invalid && k != fault.Exhausted {
			t.Errorf("%s: %+v, %s: %.300v", name, exit, k, err)
		}
	}
	if _, out := run(t, c, "echo well"); out != "well\n" {
		t.Errorf("got %q", out)
	}
}

// TestStartIsReportedAfterRecord checks that the caller of a command hears nothing before the start
// is in the history, although the command runs.
func TestStartIsReportedAfterRecord(t *testing.T) {
	t.Parallel()
	h, c := live(t)
	db, err := sqlite.Open(h.store.Path(), sqlite.Immediate)
	check(t, err)
	defer db.Close()
	lock, err := db.BeginTx(t.Context(), nil) // the supervisor waits for its end
	check(t, err)
	defer lock.Rollback()
	ran := filepath.Join(t.TempDir(), "ran")
	heard, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), sh("echo ready; touch "+ran), program.Attach{
			Stdout: writerFunc(func(b []byte) (int, error) { heard <- string(b); return len(b), nil }),
		})
		ended <- err
	}()
	testenv.Eventually(t, "the command ran", func() bool { _, err := os.Stat(ran); return err == nil })
	select {
	case text := <-heard:
		t.Fatalf("got %q, but the history has %d commands", text, len(h.history(t)))
	case <-time.After(50 * time.Millisecond):
	}
	check(t, lock.Rollback())
	check(t, <-ended)
	if text := <-heard; text != "ready\n" || len(h.history(t)) != 1 {
		t.Errorf("got %q, and the history has %d commands", text, len(h.history(t)))
	}
}
