package client

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/link"
	"github.com/pyro-mcp/pyro/internal/fault"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/agent/v1/agentv1connect"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestCutLink breaks the link in random ways. It checks that a command still runs only once, with
// complete input and output.
func TestCutLink(t *testing.T) {
	const rounds = 6
	const lines = 200_000
	want := numbers(lines)
	sessions := 0
	for seed := range testenv.Seeds(t, rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewSource(int64(seed)))
			link := &cutter{Conn: startAgent(t), random: random, most: 1_500_000}
			c := dial(t, link)
			link.mu.Lock()
			link.cuts = 1000
			link.arm()
			link.mu.Unlock()
			count := filepath.Join(t.TempDir(), "count")
			var out, errs bytes.Buffer
			command := sh(fmt.Sprintf("echo ran >> %s; seq 1 %d >&2 & cat; wait; exit 9", count, lines))
			command.Env = []string{mark}
			exit, err := c.Exec(within(t), command, program.Attach{Stdin: &counter{rand.New(rand.NewSource(int64(seed))), strings.NewReader(want)}, Stdout: &out, Stderr: &errs})
			link.mu.Lock()
			link.cuts = 0
			sessions += link.sessions
			link.mu.Unlock()
			if err != nil || exit.Code != 9 || exit.OutputHeld {
				t.Fatalf("%+v, %v, after %d sessions", exit, err, link.sessions)
			}
			if out.String() != want || errs.String() != want {
				t.Errorf("%d and %d bytes arrived that are not the %d that were sent", out.Len(), errs.Len(), len(want))
			}
			if b, _ := os.ReadFile(count); string(b) != "ran\n" {
				t.Errorf("the command's own count is %q", b)
			}
		})
	}
	if t.Logf("%d sessions", sessions); sessions < 3*rounds {
		t.Errorf("only %d sessions in %d rounds: the test cut no connection", sessions, rounds)
	}
}

// TestCutStarts breaks the link during start requests. It checks that every command still runs only
// once.
func TestCutStarts(t *testing.T) {
	link := &cutter{Conn: startAgent(t), random: rand.New(rand.NewSource(7)), most: 2500}
	c := dial(t, link)
	count := filepath.Join(t.TempDir(), "count")
	for i := range 150 {
		link.mu.Lock()
		link.cuts = 3
		link.arm()
		link.mu.Unlock()
		command := sh("echo ran >> " + count)
		command.Env = []string{mark}
		if exit, err := c.Exec(within(t), command, program.Attach{}); err != nil || exit.Code != 0 {
			t.Fatalf("%d: %+v, %v", i, exit, err)
		}
		if b, _ := os.ReadFile(count); len(b) != (i+1)*len("ran\n") {
			t.Fatalf("%d commands ran %d times", i+1, len(b)/len("ran\n"))
		}
	}
}

// TestDeadLink checks that calls fail immediately, with a clear error, if the link is lost.
func TestDeadLink(t *testing.T) {
	stream := startAgent(t)
	c := dial(t, stream)
	time.AfterFunc(100*time.Millisecond, func() { stream.Close() })
	began := time.Now()
	_, err := c.Exec(within(t), program.Command{Argv: []string{"sleep", "600"}, Env: []string{mark}}, program.Attach{})
	if took := time.Since(began); fault.KindOf(err) != fault.Unavailable || took > testenv.Patience {
		t.Errorf("after %v: %v", took, err)
	}
	if err := c.WriteFile(within(t), FileSpec{Path: "/nowhere/file"}, nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("write: %v", err)
	}
}

// TestSilentLink checks that calls and Close do not wait too long for an unresponsive agent. A call
// returns when its context ends or the client is closed.
func TestSilentLink(t *testing.T) {
	stream := startAgent(t)
	c := dial(t, stream)
	c.current().close()
	near, far := pair(t)
	silent := connOf(t, near)
	defer silent.Close()
	go io.Copy(io.Discard, far)
	defer far.Close()
	c.stream = link.NewStream(silent)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Status(within(t))
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	if _, err := c.Status(expiring(t, 100*time.Millisecond)); fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v", err)
	}
	c.Close()
	if err := <-waiting; fault.KindOf(err) != fault.Unavailable || time.Since(began) > testenv.Patience {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if _, err := c.Status(within(t)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a closed client: %v", err)
	}
	c.Close()
}

// TestUnrenewed checks that a session rejects calls until it is renewed.
func TestUnrenewed(t *testing.T) {
	stream := startAgent(t)
	ctx := within(t)
	refused := func(c *Client, when string) {
		t.Helper()
		var rpc agentv1connect.AgentServiceClient
		over := func(call func() error) error { // because old records on the link can break a new session
			for {
				s, err := c.live(ctx)
				if err != nil {
					return err
				}
				rpc = s.rpc
				if err = call(); connect.CodeOf(err) != connect.CodeUnavailable && fault.KindOf(err) != fault.Unavailable {
					return err
				}
			}
		}
		if err := over(func() error {
			status, err := rpc.Status(ctx, connect.NewRequest(&agentv1.StatusRequest{}))
			if err == nil && status.Msg.Renewed {
				t.Errorf("%s: it is renewed", when)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		events := func(s *events, err error) error {
			if err == nil {
				defer s.Close()
				s.Receive()
				err = s.Err()
			}
			return err
		}
		for name, call := range map[string]func() error{
			"Exec": func() error {
				return events(rpc.Exec(ctx, connect.NewRequest(&agentv1.ExecRequest{Command: &programv1.Command{ExecId: "x", Argv: []string{"true"}}})))
			},
			"Follow":    func() error { return events(rpc.Follow(ctx, connect.NewRequest(&agentv1.FollowRequest{ExecId: "x"}))) },
			"Ack":       func() error { _, err := rpc.Ack(ctx, connect.NewRequest(&agentv1.AckRequest{})); return err },
			"Input":     func() error { _, err := rpc.Input(ctx, connect.NewRequest(&agentv1.InputRequest{})); return err },
			"Signal":    func() error { _, err := rpc.Signal(ctx, connect.NewRequest(&agentv1.SignalRequest{})); return err },
			"Resize":    func() error { _, err := rpc.Resize(ctx, connect.NewRequest(&agentv1.ResizeRequest{})); return err },
			"Release":   func() error { _, err := rpc.Release(ctx, connect.NewRequest(&agentv1.ReleaseRequest{})); return err },
			"Stat":      func() error { _, err := c.Stat(ctx, "/"); return err },
			"ReadFile":  func() error { _, err := c.ReadFile(ctx, "/etc/passwd", 0, 0, io.Discard); return err },
			"WriteFile": func() error { return c.WriteFile(ctx, FileSpec{Path: "/tmp/never"}, nil) },
		} {
			err := over(call)
			if fault.KindOf(err) != fault.Precondition && connect.CodeOf(err) != connect.CodeFailedPrecondition {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	c, err := Dial(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	refused(c, "at first")
	for name, id := range map[string]Identity{"machine-id": {MachineID: "X", Hostname: "host"}, "host name": NewIdentity("-")} {
		if err := c.Renew(ctx, id); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a bad %s: %v", name, err)
		}
	}
	refused(c, "after a renewal that failed")
	if err := c.Renew(ctx, NewIdentity("host")); err != nil {
		t.Fatal(err)
	}
	run(t, c, sh("true"), nil)
	c.current().close()
	run(t, c, sh("true"), nil) // the client opens a new session and renews the machine
	c.Close()
	if c, err = Dial(ctx, stream); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused(c, "in another session")
}

// TestManySessions checks that the first calls of a session find its connection. On a busy host, a
// call can come before the transport of net/http has put the connection into its pool. Without
// MaxConnsPerHost, that happened about once in 1,500 sessions.
func TestManySessions(t *testing.T) {
	stream := startAgent(t)
	identity := NewIdentity("test")
	for i := range 1000 {
		c, err := Dial(within(t), stream)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Renew(within(t), identity); err != nil {
			t.Fatal(err)
		}
		// The client does not repeat this call.
		if err := c.Rename(within(t), "/none/a", "/none/b"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("session %d: %v", i, err)
		}
		c.Close()
	}
}
