package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// tree is a script that starts processes that are hard to kill. They are in the same process group,
// in their own sessions, or without a parent.
const tree = "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; (sh -c 'sleep 600 &' &); echo up; sleep 600"

func TestTimeLimitKillsTheTree(t *testing.T) {
	c := dial(t, startAgent(t))
	command := sh(tree)
	command.Timeout = 300 * time.Millisecond
	began := time.Now()
	got := run(t, c, command, nil)
	for got.TimedOut && got.out == "" { // the limit was over before the processes had started
		command.Timeout *= 2
		got = run(t, c, command, nil)
	}
	if !got.TimedOut || got.Code != 137 || got.Signal != 9 || got.out != "up\n" {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
	gone(t, mark)
	command = sh("true")
	command.Timeout = time.Nanosecond // the protocol has milliseconds, so this rounds to 0 ms
	command.Argv = []string{"sleep", "5"}
	if got := run(t, c, command, nil); !got.TimedOut {
		t.Errorf("a tiny limit: %+v", got)
	}
}

func TestContextKillsTheTree(t *testing.T) {
	c := dial(t, startAgent(t))
	for name, script := range map[string]string{"tree": tree, "output without a reader": "echo up; exec yes"} {
		ctx, cancel := context.WithCancelCause(within(t))
		command := sh(script)
		command.Env = []string{mark}
		errWhy := errors.New("the caller had enough")
		blocked := make(chan struct{})
		_, err := c.Exec(ctx, command, program.Attach{Stdout: writerFunc(func(p []byte) (int, error) {
			if name != "tree" {
				time.Sleep(200 * time.Millisecond) // lets the output buffer become full
			}
			time.AfterFunc(50*time.Millisecond, func() { cancel(errWhy); close(blocked) })
			<-blocked
			return len(p), nil
		})})
		if !errors.Is(err, errWhy) {
			t.Errorf("%s: %v", name, err)
		}
		gone(t, mark)
		cancel(nil)
	}
}

// TestCancelledEarly checks that a command does not run if its caller cancels it while it starts.
func TestCancelledEarly(t *testing.T) {
	c := dial(t, startAgent(t))
	for i := range 60 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		command := program.Command{Argv: []string{"sleep", "600"}, Env: []string{mark}}
		if _, err := c.Exec(ctx, command, program.Attach{}); fault.KindOf(err) != fault.Timeout {
			t.Errorf("%v", err)
		}
		cancel()
	}
	gone(t, mark)
}

// TestSlowKill checks that the client kills an abandoned command even if the agent is slow, and
// that the caller does not wait for that.
func TestSlowKill(t *testing.T) {
	goOn, killed := make(chan struct{}), make(chan struct{})
	c, err := Dial(within(t), evil(t, byPath(map[string]http.HandlerFunc{
		agentv1connect.AgentServiceExecProcedure: func(w http.ResponseWriter, r *http.Request) {
			answer(event(t, &agentv1.ExecEvent{Started: &agentv1.Started{Pid: 1}}))(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		agentv1connect.AgentServiceReleaseProcedure: func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-goOn:
				w.Header().Set("Content-Type", "application/proto") // an empty message
			case <-r.Context().Done():
			}
		},
		agentv1connect.AgentServiceSignalProcedure: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			close(killed)
		},
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(within(t))
	_, err = c.Exec(ctx, program.Command{Argv: []string{"x"}}, program.Attach{Started: func(program.Process) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(goOn)
	select {
	case <-killed:
	case <-within(t).Done():
		t.Error("the command was not killed")
	}
}

func TestFailingWriter(t *testing.T) {
	c := dial(t, startAgent(t))
	_, err := c.Exec(within(t), program.Command{Argv: []string{"yes"}, Env: []string{mark}}, program.Attach{Stdout: writerFunc(func([]byte) (int, error) { return 0, errBroken })})
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	gone(t, mark)
}

func TestSignal(t *testing.T) {
	c := dial(t, startAgent(t))
	command := sh("trap 'echo got it; exit 3' USR1; echo ready; while :; do sleep 0.02; done")
	command.ID = "signalled"
	ready := make(chan struct{})
	go func() {
		<-ready
		c.Signal(context.Background(), "signalled", syscall.SIGUSR1)
	}()
	var out bytes.Buffer
	var once sync.Once
	exit, err := c.Exec(within(t), command, program.Attach{Stdout: writerFunc(func(p []byte) (int, error) {
		once.Do(func() { close(ready) })
		return out.Write(p)
	})})
	if err != nil || exit.Code != 3 || out.String() != "ready\ngot it\n" {
		t.Errorf("%+v, %q, %v", exit, out.String(), err)
	}
	command = sh(tree)
	command.ID = "killed"
	wait := background(t, c, command)
	testenv.Eventually(t, "the command can be killed", func() bool { return c.Kill(context.Background(), "killed") == nil })
	if exit, err := wait(); err != nil || exit.Signal != 9 {
		t.Errorf("%+v, %v", exit, err)
	}
	gone(t, mark)
	if err := c.Signal(within(t), "nobody", syscall.SIGTERM); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown command: %v", err)
	}
	if err := c.Signal(within(t), "nobody", 0); err == nil {
		t.Errorf("signal 0 was sent")
	}
}

// background runs a command in the background. It returns a function that waits until the command
// ends.
func background(t *testing.T, c *Client, command program.Command) (wait func() (program.Exit, error)) {
	t.Helper()
	var exit program.Exit
	var err error
	done := make(chan struct{})
	command.Env = append(command.Env, mark)
	go func() {
		defer close(done)
		exit, err = c.Exec(context.Background(), command, program.Attach{})
	}()
	return func() (program.Exit, error) { <-done; return exit, err }
}

func TestKnownID(t *testing.T) {
	c := dial(t, startAgent(t))
	wait := background(t, c, program.Command{ID: "mine", Argv: []string{"sleep", "600"}})
	testenv.Eventually(t, "the command runs", func() bool { return c.Signal(context.Background(), "mine", syscall.SIGCONT) == nil })
	if _, err := c.Exec(within(t), program.Command{ID: "mine", Argv: []string{"true"}}, program.Attach{}); fault.KindOf(err) != fault.Exists {
		t.Errorf("the same id again: %v", err)
	}
	if err := c.Signal(within(t), "mine", syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if exit, err := wait(); err != nil || exit.Code != 143 {
		t.Errorf("the other one was harmed: %+v, %v", exit, err)
	}
	if _, err := c.Exec(within(t), program.Command{ID: "mine", Argv: []string{"true"}}, program.Attach{}); fault.KindOf(err) != fault.Exists {
		t.Errorf("an id that was used: %v", err)
	}
}

func TestTooManyCommands(t *testing.T) {
	c := dial(t, startAgent(t))
	const most = 256
	var waits []func() (program.Exit, error)
	for i := range most {
		waits = append(waits, background(t, c, program.Command{ID: strconv.Itoa(i), Argv: []string{"sleep", "600"}}))
	}
	for i := range most {
		testenv.Eventually(t, "all commands run", func() bool { return c.Signal(context.Background(), strconv.Itoa(i), syscall.SIGCONT) == nil })
	}
	if _, err := c.Exec(within(t), program.Command{Argv: []string{"true"}}, program.Attach{}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("one more: %v", err)
	}
	for i := range most {
		if err := c.Signal(within(t), strconv.Itoa(i), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, wait := range waits {
		if exit, err := wait(); err != nil || exit.Code != 143 {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	run(t, c, sh("true"), nil) // the start request releases all ended commands
}

func TestRelease(t *testing.T) {
	c := dial(t, startAgent(t))
	ctx := within(t)
	rpc := c.current().rpc
	follow := func(id string) error {
		stream, err := rpc.Follow(ctx, connect.NewRequest(&agentv1.FollowRequest{ExecId: id}))
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
		}
		return stream.Err()
	}
	release := func(id string) {
		t.Helper()
		if _, err := rpc.Release(ctx, connect.NewRequest(&agentv1.ReleaseRequest{ExecId: id})); err != nil {
			t.Fatal(err)
		}
	}
	start := func(id string, argv ...string) {
		t.Helper()
		stream, err := rpc.Exec(ctx, connect.NewRequest(&agentv1.ExecRequest{Command: &programv1.Command{ExecId: id, Argv: argv, Env: []string{mark}}}))
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		stream.Close()
	}
	start("ended", "echo", "x")
	if err := follow("ended"); err != nil {
		t.Error(err)
	}
	release("ended")
	release("ended")
	release("never heard of")
	if err := follow("ended"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a forgotten command: %v", err)
	}
	// After its release, a command that blocks on its output runs to its end.
	file := filepath.Join(t.TempDir(), "whole")
	start("running", "sh", "-c", "head -c 3000000 /dev/zero; echo whole > "+file)
	release("running")
	testenv.Eventually(t, "the released command is forgotten", func() bool { return connect.CodeOf(follow("running")) == connect.CodeNotFound })
	if b, _ := os.ReadFile(file); string(b) != "whole\n" {
		t.Errorf("it left %q", b)
	}
}
