package hostagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/tracing"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeoutSec  = 7 * 24 * 3600
	maxOutput      = 16 << 20 // maximum total size of stdout and stderr in one response, in bytes
)

// request is a call that starts a program.
type request interface {
	GetSandboxId() string
	GetCmd() string
	GetArgs() []string
	GetEnvs() map[string]string
	GetCwd() string
	GetUser() string
}

// timedRequest is a request with a time limit.
type timedRequest interface {
	request
	GetTimeoutSec() int32
}

// command returns the command of a request, with the defaults of the sandbox. It sets no time
// limit.
func (s *sandbox) command(p request) (program.Command, error) {
	r := s.record()
	env := maps.Clone(r.DefaultEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.GetEnvs())
	if err := program.CheckEnv(env, maxEnvironment); err != nil {
		return program.Command{}, err
	}
	c := program.Command{Argv: append([]string{p.GetCmd()}, p.GetArgs()...), Env: program.Environ(env), Cwd: p.GetCwd(), User: r.DefaultUser}
	if user := p.GetUser(); user != "" {
		c.User = user
	}
	var err error
	switch {
	case p.GetCmd() == "":
		err = fault.Newf(fault.Invalid, "cmd is missing")
	case c.Cwd != "" && !strings.HasPrefix(c.Cwd, "/"):
		err = fault.Newf(fault.Invalid, "cwd is %q: it must be absolute", fault.Printable(c.Cwd))
	case strings.ContainsRune(strings.Join(c.Argv, "")+c.Cwd+c.User, 0):
		err = fault.Newf(fault.Invalid, "cmd, args, cwd and user must not contain a NUL byte")
	}
	return c, err
}

// prepareExec connects to the sandbox of a request and builds the command. The caller must call the
// returned function at the end.
func (a *Agent) prepareExec(ctx context.Context, p timedRequest) (Machine, program.Command, func(), error) {
	m, s, end, err := a.connected(ctx, "exec", p.GetSandboxId())
	if err != nil {
		return nil, program.Command{}, nil, err
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

// Exec runs a program until the program ends. It returns the output, which can have at most
// maxOutput bytes.
func (a *Agent) Exec(ctx context.Context, req *connect.Request[pb.ExecRequest]) (*connect.Response[pb.ExecResponse], error) {
	m, c, end, err := a.prepareExec(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	defer end()
	budget := program.NewBudget(maxOutput)
	stdout, stderr := program.Bounded{Budget: budget}, program.Bounded{Budget: budget}
	exit, err := run(ctx, m, c, program.Attach{Stdout: &stdout, Stderr: &stderr})
	switch {
	case errors.Is(err, program.ErrFull):
		return nil, fault.New(fault.Exhausted, "exec", c.Argv[0], "it printed more than %d bytes and was killed", maxOutput).WithHint("call ExecStream, which has no limit")
	case err != nil:
		return nil, err
	case exit.TimedOut:
		return nil, fault.New(fault.Timeout, "exec", c.Argv[0], "it did not end within %v and was killed with its descendants", c.Timeout).WithHint("set timeout_sec")
	}
	if why := exitReason(exit, c); why != "" {
		stderr.Discard = true
		fmt.Fprintf(&stderr, "%s: %s\n", c.Argv[0], why)
	}
	return connect.NewResponse(&pb.ExecResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(exit.Code)}), nil
}

// run runs a program, with a span. The span has no content of the command.
func run(ctx context.Context, m Machine, c program.Command, to program.Attach) (workspace.Exit, error) {
	ctx, span := tracing.Begin(ctx, "exec")
	exit, err := m.Run(ctx, c, to)
	if err == nil {
		span.Set("exit_code", strconv.Itoa(exit.Code))
	}
	span.End(err)
	return exit, err
}

// exitReason returns the reason why a program did not run or was killed. The result is empty if
// there is no reason beyond the exit code.
func exitReason(e workspace.Exit, c program.Command) string {
	switch {
	case e.TimedOut:
		return fmt.Sprintf("it did not end within %v and was killed with its descendants", c.Timeout)
	case e.OutOfMemory:
		return "the sandbox ran out of memory"
	}
	return e.NotRun
}

// ExecStream runs a program and streams its output to the client.
func (a *Agent) ExecStream(ctx context.Context, req *connect.Request[pb.ExecStreamRequest], to *connect.ServerStream[pb.ExecStreamResponse]) error {
	m, c, end, err := a.prepareExec(ctx, req.Msg)
	if err != nil {
		return err
	}
	defer end()
	// Run calls these functions from a single goroutine, so they need no lock.
	started := false
	start := func(pid int) error {
		if started {
			return nil
		}
		started = true
		return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Start{Start: &pb.ExecStreamStart{Pid: uint32(pid)}}})
	}
	stream := func(of func([]byte) *pb.ExecStreamData) io.Writer {
		return writer(func(b []byte) error {
			if err := start(0); err != nil {
				return err
			}
			return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_Data{Data: of(b)}})
		})
	}
	exit, err := run(ctx, m, c, program.Attach{
		Stdout: stream(func(b []byte) *pb.ExecStreamData {
			return &pb.ExecStreamData{Output: &pb.ExecStreamData_Stdout{Stdout: b}}
		}),
		Stderr: stream(func(b []byte) *pb.ExecStreamData {
			return &pb.ExecStreamData{Output: &pb.ExecStreamData_Stderr{Stderr: b}}
		}),
		Started: func(p program.Process) { _ = start(p.PID()) }, // if this Send fails, the next Send returns the same error
	})
	if err != nil {
		return err
	}
	if err := start(0); err != nil {
		return err
	}
	return to.Send(&pb.ExecStreamResponse{Event: &pb.ExecStreamResponse_End{End: &pb.ExecStreamEnd{ExitCode: int32(exit.Code), Error: exitReason(exit, c)}}})
}

// writer implements io.Writer with a function.
type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
