package machinetest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/program"
)

// terminal runs a shell on a terminal. It checks the PID, the size of the terminal, a change of the
// size, the limit for lines, and a signal.
func (s suite) terminal(t *testing.T) {
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	keys, typed := io.Pipe()
	defer typed.Close()
	out := &output{}
	id := program.NewID()
	started, ended := make(chan program.Process, 1), make(chan program.Exit, 1)
	go func() {
		exit, err := g.agent.Exec(ctx, program.Command{
			ID: id, Argv: []string{"/bin/sh", "-c", `echo "pid $$"; stty size; read -r line; stty size; stty -echo; echo silent
				read -r line; echo "got ${#line}."; stty -icanon; echo keys; exec sleep 1000`}, Cwd: "/", TTY: &program.Terminal{Cols: 81, Rows: 25},
		}, program.Attach{Stdin: keys, Stdout: out, Started: func(p program.Process) { started <- p }})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	prints := func(text string) {
		t.Helper()
		g.until(t, func() bool { return strings.Contains(out.String(), text) })
	}
	p := <-started
	prints(fmt.Sprintf("pid %d\r\n25 81\r\n", p.PID()))
	if err := p.Resize(ctx, 99, 33); err != nil {
		t.Error(err)
	}
	io.WriteString(typed, "\n")
	prints("33 99")
	limits := func(want int) {
		t.Helper()
		if limit, err := g.agent.LineLimit(ctx, id); limit != want || err != nil {
			t.Errorf("limit for lines: %d, %v, not %d", limit, err, want)
		}
	}
	limits(program.LineLimit)
	prints("silent")
	io.WriteString(typed, strings.Repeat("x", program.LineLimit)+"y\n")
	prints(fmt.Sprintf("got %d.\r\n", program.LineLimit))
	prints("keys")
	limits(0)
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if exit := <-ended; exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("it ended with %+v", exit)
	}
}
