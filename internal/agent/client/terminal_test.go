package client

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

var screen = program.Terminal{Cols: 97, Rows: 31}

// console records the output of a command and notifies readers of new output.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func (c *console) await(t testing.TB, text string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(c.String(), text); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > testenv.Patience {
			t.Errorf("%q was never shown, only %q", text, c.String())
			return
		}
	}
}

func TestTerminal(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, want := range map[string]struct{ script, in, out string }{
		"size":          {"stty size", "", "31 97\n"},
		"a terminal":    {"test -t 0 && test -t 1 && test -t 2 && tty | grep -q /dev/pts/ && echo yes", "", "yes\n"},
		"TERM":          {"echo $TERM", "", "xterm-256color\n"},
		"one stream":    {"echo a; echo b >&2; echo c", "", "a\nb\nc\n"},
		"lines":         {"stty -echo; echo go; cat", "a\nb\n", "go\na\nb\n"},
		"end of a line": {"stty -echo; echo go; cat; echo ', over'", "half", "go\nhalf, over\n"},
		"no input":      {"stty -echo; echo go; cat; echo over", "", "go\nover\n"},
	} {
		shown := &console{}
		r, w := io.Pipe()
		go func() {
			if strings.HasPrefix(want.out, "go\n") {
				shown.await(t, "go")
			}
			io.WriteString(w, want.in)
			w.Close()
		}()
		command := sh(want.script)
		command.TTY = &screen
		exit, err := c.Exec(within(t), command, program.Attach{Stdin: r, Stdout: shown})
		r.Close()
		if got := strings.ReplaceAll(shown.String(), "\r\n", "\n"); err != nil || exit.Code != 0 || exit.OutputHeld || got != want.out {
			t.Errorf("%s: %q, %+v, %v", name, got, exit, err)
		}
	}
	command := sh("echo $TERM")
	command.TTY = &program.Terminal{Cols: 1, Rows: 1, Term: "dumb"}
	if got := run(t, c, command, nil); got.out != "dumb\r\n" {
		t.Errorf("%+v", got)
	}
	command = sh("seq 1 100000")
	command.TTY = &screen
	if got := run(t, c, command, nil); len(got.out) != 588895+100000 || !strings.HasSuffix(got.out, "\r\n100000\r\n") {
		t.Errorf("%d bytes of a terminal's output", len(got.out))
	}
}

func TestResize(t *testing.T) {
	c := dial(t, startAgent(t))
	shown := &console{}
	command := sh("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done")
	command.ID, command.TTY = "resized", &screen
	go func() {
		shown.await(t, "ready")
		if err := c.Resize(within(t), "resized", 1001, 1); fault.KindOf(err) != fault.Invalid {
			t.Errorf("1001 columns: %v", err)
		}
		if err := c.Resize(within(t), "resized", 50, 20); err != nil {
			t.Error(err)
		}
	}()
	exit, err := c.Exec(within(t), command, program.Attach{Stdout: shown})
	if err != nil || shown.String() != "ready\r\n20 50\r\n" {
		t.Errorf("%q, %+v, %v", shown, exit, err)
	}
	wait := background(t, c, program.Command{ID: "plain", Argv: []string{"sleep", "600"}})
	testenv.Eventually(t, "a command without a terminal can't be resized", func() bool {
		return fault.KindOf(c.Resize(within(t), "plain", 50, 20)) == fault.Precondition
	})
	c.Kill(within(t), "plain")
	wait()
}

// TestInterrupt checks that Ctrl-C and signals reach the foreground group of a terminal.
func TestInterrupt(t *testing.T) {
	for name, interrupt := range map[string]func(c *Client, w io.Writer){
		"Ctrl-C": func(_ *Client, w io.Writer) { w.Write([]byte{3}) },
		"signal": func(c *Client, _ io.Writer) { c.Signal(within(t), "it", 2) },
	} {
		c := dial(t, startAgent(t))
		shown := &console{}
		r, w := io.Pipe()
		// An interactive shell gives each job its own process group, so the shell survives.
		command := program.Command{ID: "it", Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: []string{"PS1=", "HISTFILE=", mark}, TTY: &screen}
		go func() {
			io.WriteString(w, "stty -echo; sh -c 'echo job $((40+2)); exec sleep 600'\n")
			shown.await(t, "job 42")
			time.Sleep(50 * time.Millisecond)
			interrupt(c, w)
			time.Sleep(50 * time.Millisecond)
			io.WriteString(w, "echo status $?; exit 7\n")
		}()
		exit, err := c.Exec(within(t), command, program.Attach{Stdin: r, Stdout: shown})
		r.Close()
		if err != nil || exit.Code != 7 || !strings.Contains(shown.String(), "status 130") {
			t.Errorf("%s: %q, %+v, %v", name, shown, exit, err)
		}
	}
}

// TestSignalDiscardsInput checks that a signal discards unread input if the key for it would. The
// input does not fit into the terminal, so a part of it has not arrived when the signal does.
func TestSignalDiscardsInput(t *testing.T) {
	c := dial(t, startAgent(t))
	shown := &console{}
	r, w := io.Pipe()
	command := program.Command{ID: "it", Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: []string{"PS1=", "HISTFILE=", mark}, TTY: &screen}
	var typing sync.WaitGroup // it also waits for the answer to the signal
	typing.Go(func() {
		job, ahead := "sh -c 'echo job $((40+2)); exec sleep 600'\n", strings.Repeat("echo ahead $((1+1))\n", 20000)
		io.WriteString(w, job)
		shown.await(t, "job 42")
		typing.Go(func() {
			shown.await(t, "ahead") // the echo
			if err := c.SignalAfter(within(t), "it", syscall.SIGINT, uint64(len(job)+len(ahead))); err != nil {
				t.Error(err)
			}
		})
		io.WriteString(w, ahead)
		io.WriteString(w, "echo status $?; exit 7\n")
	})
	exit, err := c.Exec(within(t), command, program.Attach{Stdin: r, Stdout: shown})
	r.Close()
	typing.Wait()
	if text := shown.String(); err != nil || exit.Code != 7 || !strings.Contains(text, "status 130") ||
		strings.Contains(text, "ahead 2") || strings.Contains(text, "not found") {
		t.Errorf("%+v, %v, %q", exit, err, text[max(0, len(text)-1000):])
	}
}

// TestSignalKeepsInput checks which signals discard a line that was not read. They keep it if the
// settings of the terminal say so, if the signal has no key, or if the offset is unknown.
func TestSignalKeepsInput(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		signal   syscall.Signal
		typed    int
		want     string
	}{
		"INT":       {"isig -noflsh", syscall.SIGINT, 6, "second"},
		"QUIT":      {"isig -noflsh", syscall.SIGQUIT, 6, "second"},
		"no flush":  {"isig noflsh", syscall.SIGINT, 6, "first"},
		"no keys":   {"-isig -noflsh", syscall.SIGINT, 6, "first"},
		"no key":    {"isig -noflsh", syscall.SIGUSR1, 6, "first"},
		"undefined": {"isig -noflsh intr undef", syscall.SIGINT, 6, "first"},
		"unknown":   {"isig -noflsh", syscall.SIGINT, 0, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, startAgent(t))
			shown := &console{}
			r, w := io.Pipe()
			command := sh("trap c=1 INT QUIT USR1; stty -echo " + test.settings + `; echo go
				until [ "$c" ]; do sleep 0.02; done; echo caught; read -r line; echo "got $line"`)
			command.ID, command.TTY = "it", &screen
			var typing sync.WaitGroup // it also waits for the answer to the signal
			typing.Go(func() {
				shown.await(t, "go")
				io.WriteString(w, "first\n")
				if err := c.SignalAfter(within(t), "it", test.signal, uint64(test.typed)); err != nil {
					t.Error(err)
				}
				shown.await(t, "caught")
				io.WriteString(w, "second\n")
			})
			exit, err := c.Exec(within(t), command, program.Attach{Stdin: r, Stdout: shown})
			r.Close()
			typing.Wait()
			if err != nil || !strings.Contains(shown.String(), "got "+test.want+"\r\n") {
				t.Errorf("%q, %+v, %v", shown, exit, err)
			}
		})
	}
}
