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

// typeAhead types a line that the foreground program does not read, and then interrupts the
// program, by a signal and by a key. Both discard the line.
func (s suite) typeAhead(t *testing.T) {
	g := s.renewed(t, usual)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	keys, typed := io.Pipe()
	defer typed.Close()
	out := &output{}
	id, ended := program.NewID(), make(chan program.Exit, 1)
	go func() {
		exit, err := g.agent.Exec(ctx, program.Command{
			ID: id, Argv: []string{"/bin/sh", "-c", `trap 'echo interrupted' INT
				for i in 1 2; do echo "sleep $i"; sleep 1000; read -r line; echo "$i: $line"; done`}, Cwd: "/", TTY: &program.Terminal{Cols: 80, Rows: 25},
		}, program.Attach{Stdin: keys, Stdout: out})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	prints := func(text string) {
		t.Helper()
		g.until(t, func() bool { return strings.Contains(out.String(), text) })
	}
	for i, interrupt := range []func(){
		func() {
			if err := g.agent.SignalAfter(ctx, id, syscall.SIGINT, uint64(len("ahead 1\n"))); err != nil {
				t.Error(err)
			}
		},
		func() { io.WriteString(typed, "\x03") },
	} {
		prints(fmt.Sprintf("sleep %d", i+1))
		io.WriteString(typed, fmt.Sprintf("ahead %d\n", i+1))
		prints(fmt.Sprintf("ahead %d", i+1)) // the echo
		interrupt()
		g.until(t, func() bool { return strings.Count(out.String(), "interrupted") > i })
		io.WriteString(typed, "next\n")
		prints(fmt.Sprintf("%d: next", i+1))
	}
	if exit := <-ended; exit.Code != 0 {
		t.Errorf("it ended with %+v", exit)
	}
}
