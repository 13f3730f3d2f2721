package machinetest

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/program"
)

// terminalProgram is a shell script on a terminal of a machine.
type terminalProgram struct {
	program.Process
	t     *testing.T
	guest *guest
	id    string
	typed io.Writer
	out   *output
	ended chan program.Exit // receives the exit after all output was written to out
}

// open starts a script on a terminal of 80 x 25 and writes its output to out.
func (g *guest) open(ctx context.Context, t *testing.T, script string, out *output) *terminalProgram {
	t.Helper()
	keys, typed := io.Pipe()
	t.Cleanup(func() { typed.Close() })
	p := &terminalProgram{t: t, guest: g, id: program.NewID(), typed: typed, out: out, ended: make(chan program.Exit, 1)}
	started := make(chan program.Process, 1)
	go func() {
		exit, err := g.agent.Exec(ctx, program.Command{
			ID: p.id, Argv: []string{"/bin/sh", "-c", script}, Cwd: "/", TTY: &program.Terminal{Cols: 80, Rows: 25},
		}, program.Attach{Stdin: keys, Stdout: out, Started: func(p program.Process) { started <- p }})
		if err != nil {
			t.Error(err)
		}
		p.ended <- exit
	}()
	select {
	case p.Process = <-started:
	case <-ctx.Done():
		t.Fatal("the terminal was not opened")
	}
	return p
}

// prints waits until the output contains a text.
func (p *terminalProgram) prints(text string) {
	p.t.Helper()
	p.guest.until(p.t, func() bool { return strings.Contains(p.out.String(), text) })
}

// types types a text into the terminal.
func (p *terminalProgram) types(text string) { io.WriteString(p.typed, text) }

// terminal runs a shell on a terminal. It checks the PID, the size of the terminal, a change of the
// size, the limit for lines, and a signal.
func (s suite) terminal(t *testing.T) {
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := g.open(ctx, t, `echo "pid $$"; stty size; read -r line; stty size; stty -echo; echo silent
		read -r line; echo "got ${#line}."; stty -icanon; echo keys; exec sleep 1000`, &output{})
	p.prints(fmt.Sprintf("pid %d\r\n25 80\r\n", p.PID()))
	if err := p.Resize(ctx, 99, 33); err != nil {
		t.Error(err)
	}
	p.types("\n")
	p.prints("33 99")
	limits := func(want int) {
		t.Helper()
		if limit, err := g.agent.LineLimit(ctx, p.id); limit != want || err != nil {
			t.Errorf("limit for lines: %d, %v, not %d", limit, err, want)
		}
	}
	limits(program.LineLimit)
	p.prints("silent")
	p.types(strings.Repeat("x", program.LineLimit) + "y\n")
	p.prints(fmt.Sprintf("got %d.\r\n", program.LineLimit))
	p.prints("keys")
	limits(0)
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if exit := <-p.ended; exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("it ended with %+v", exit)
	}
}

// typeAhead types a line that the foreground program does not read, and then interrupts the
// program, by a signal and by a key. Both discard the line.
func (s suite) typeAhead(t *testing.T) {
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := g.open(ctx, t, `trap 'echo interrupted' INT
		for i in 1 2; do (echo "sleep $i"; exec sleep 1000); read -r line; echo "$i: $line"; done`, &output{})
	for i, interrupt := range []func(){
		func() {
			if err := g.agent.SignalAfter(ctx, p.id, syscall.SIGINT, uint64(len("ahead 1\n"))); err != nil {
				t.Error(err)
			}
		},
		func() { p.types("\x03") },
	} {
		p.prints(fmt.Sprintf("sleep %d", i+1))
		p.types(fmt.Sprintf("ahead %d\n", i+1))
		p.prints(fmt.Sprintf("ahead %d", i+1)) // the echo
		interrupt()
		g.until(t, func() bool { return strings.Count(p.out.String(), "interrupted") > i })
		p.types("next\n")
		p.prints(fmt.Sprintf("%d: next", i+1))
	}
	if exit := <-p.ended; exit.Code != 0 {
		t.Errorf("it ended with %+v", exit)
	}
}

// lastOutput prints on a terminal without a reader until the terminal is full, and then kills the
// program. The reader must still get all output.
func (s suite) lastOutput(t *testing.T) {
	const piece = 1000
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := g.open(ctx, t, fmt.Sprintf(`n=0; while printf '%%0%dd' $n; do n=$((n+1)); echo $n >/run/printed; done`, piece), &output{gate: make(chan struct{})})
	printed := func() int {
		n, _ := strconv.Atoi(g.shell(t, "cat /run/printed 2>/dev/null; :"))
		return n
	}
	// On a slow host, this can seem so before the terminal is full. Then the check is weaker.
	g.until(t, func() bool {
		before := printed()
		time.Sleep(time.Second)
		return before > 0 && printed() == before
	})
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	g.until(t, func() bool { return g.shell(t, fmt.Sprintf("test -d /proc/%d || echo ended", p.PID())) == "ended" })
	complete := printed() * piece
	time.Sleep(time.Second) // longer than the agent waits for the end of the output
	close(p.out.gate)
	exit := <-p.ended
	if got := len(p.out.String()); got < complete || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %d bytes of %d; it ended with %+v", got, complete, exit)
	}
}
