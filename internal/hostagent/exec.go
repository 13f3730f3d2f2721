package hostagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeoutSec  = 7 * 24 * 3600
	maxCollected   = 16 << 20 // of what a program prints, in one answer
)

// program is what a call asks to run.
type program interface {
	GetSandboxId() string
	GetCmd() string
	GetArgs() []string
	GetEnvs() map[string]string
	GetCwd() string
	GetUser() string
}

// timed is one whose time is limited.
type timed interface {
	program
	GetTimeoutSec() int32
}

// command is a program as a machine is told it, without a time limit.
func (s *sandbox) command(p program) (client.Command, error) {
	r := s.record()
	env := maps.Clone(r.DefaultEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.GetEnvs())
	all, err := variables(env)
	if err != nil {
		return client.Command{}, err
	}
	c := client.Command{Argv: append([]string{p.GetCmd()}, p.GetArgs()...), Env: all, Cwd: p.GetCwd(), User: r.DefaultUser}
	if user := p.GetUser(); user != "" {
		c.User = user
	}
	switch {
	case p.GetCmd() == "":
		err = fault.Newf(fault.Invalid, "cmd is missing")
	case c.Cwd != "" && !strings.HasPrefix(c.Cwd, "/"):
		err = fault.Newf(fault.Invalid, "cwd is %q: it must be absolute", fault.Printable(c.Cwd))
	case strings.ContainsRune(strings.Join(c.Argv, "")+c.Cwd+c.User, 0):
		err = fault.Newf(fault.Invalid, "a NUL byte can't be in what a program is told")
	}
	return c, err
}

// begin connects to the sandbox that a program is to run in.
func (a *Agent) begin(ctx context.Context, p timed) (Machine, client.Command, func(), error) {
	m, s, end, err := a.connected(ctx, "exec", p.GetSandboxId())
	if err != nil {
		return nil, client.Command{}, nil, err
	}
	c, err := s.command(p)
	c.Timeout = defaultTimeout
	if n := p.GetTimeoutSec(); n != 0 {
		c.Timeout = time.Duration(n) * time.Second
	}
	if err == nil && (c.Timeout < 0 || c.Timeout > maxTimeoutSec*time.Second) {
		err = fault.Newf(fault.Invalid, "timeout_sec is %d: it must be 1 to %d, or 0 for 30", p.GetTimeoutSec(), maxTimeoutSec)
	}
	if err != nil {
		end()
		return nil, c, nil, fault.Wrap(err, "exec", s.id())
	}
	return m, c, end, nil
}

// collected is a buffer with a bound, which two streams may share. Its buffer is a field with a name:
// the methods of an embedded one, such as ReadFrom, which io.Copy prefers, would write past the bound.
type collected struct {
	buffer bytes.Buffer
	left   *int
}

var errTooMuch = errors.New("more was printed than can be collected")

func (c *collected) Write(b []byte) (int, error) {
	if *c.left -= len(b); *c.left < 0 {
		return 0, errTooMuch
	}
	return c.buffer.Write(b)
}

// Exec runs a program to its end.
func (a *Agent) Exec(ctx context.Context, req *connect.Request[pb.ExecRequest]) (*connect.Response[pb.ExecResponse], error) {
	m, c, end, err := a.begin(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	left := maxCollected
	stdout, stderr := collected{left: &left}, collected{left: &left}
	exit, err := m.Run(ctx, c, &stdout, &stderr)
	switch {
	case errors.Is(err, errTooMuch):
		return nil, fault.New(fault.Exhausted, "exec", c.Argv[0], "it printed more than %d bytes, and was killed", maxCollected).WithHint("call ExecStream, which has no bound")
	case err != nil:
		return nil, err
	case exit.TimedOut:
		return nil, fault.New(fault.Timeout, "exec", c.Argv[0], "it did not end within %v, and was killed with all that it had started", c.Timeout).WithHint("set timeout_sec")
	}
	if why := whyNot(exit, c); why != "" {
		fmt.Fprintf(&stderr.buffer, "%s: %s\n", c.Argv[0], why)
	}
	return connect.NewResponse(&pb.ExecResponse{Stdout: stdout.buffer.Bytes(), Stderr: stderr.buffer.Bytes(), ExitCode: int32(exit.Code)}), nil
}

// whyNot tells why a program never ran, or what ended it, where its exit code does not tell that; else it is empty.
func whyNot(e remote.Exit, c client.Command) string {
	switch {
	case e.TimedOut:
		return fmt.Sprintf("it did not end within %v, and was killed with all that it had started", c.Timeout)
	case e.OutOfMemory:
		return "the sandbox ran out of memory"
	}
	return e.Message
}

// ExecStream runs a program and tells what it prints as it comes.
func (a *Agent) ExecStream(ctx context.Context, req *connect.Request[pb.ExecStreamRequest], to *connect.ServerStream[pb.ExecStreamResponse]) error {
	m, c, end, err := a.begin(ctx, req.Msg)
	if err != nil {
		return err
	}
	defer end()
	// One goroutine of Run calls all of these, one after the other.
	started := false
	start := func(pid int) error {
		if started {
			return nil
		}
		started = true
		return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Start{Start: &pb.ExecStreamStart{Pid: uint32(pid)}}})
	}
	c.Started = func(pid int) { _ = start(pid) } // what comes next fails as well
	stream := func(of func([]byte) *pb.ExecStreamData) io.Writer {
		return writer(func(b []byte) error {
			if err := start(0); err != nil {
				return err
			}
			return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Data{Data: of(b)}})
		})
	}
	exit, err := m.Run(ctx, c,
		stream(func(b []byte) *pb.ExecStreamData {
			return &pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: b}}
		}),
		stream(func(b []byte) *pb.ExecStreamData {
			return &pb.ExecStreamData{Output: &pb.ExecStreamData_Stderr{Stderr: b}}
		}))
	if err != nil {
		return err
	}
	if err := start(0); err != nil {
		return err
	}
	return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_End{End: &pb.ExecStreamEnd{ExitCode: int32(exit.Code), Error: whyNot(exit, c)}}})
}

// writer writes by a function.
type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
