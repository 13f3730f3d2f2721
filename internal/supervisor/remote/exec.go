package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// Exit is how a command ended.
type Exit struct {
	client.Exit
	Sequence int // in the history; 0 if it is not there

	HistoryError string // why it is not in the history, or its end is not
}

// inputChunk is how much input goes in one message.
const inputChunk = 64 << 10

var errWriter = errors.New("the output can't be written")

// Exec runs a command to its end, with secrets in its environment, and keeps it in the workspace's history. Input, output and cancelling are as for internal/agent/client, but that a command
// is killed as well when this process dies.
func (c *Client) Exec(ctx context.Context, command client.Command, in io.Reader, out, errs io.Writer, secrets ...SecretEnv) (Exit, error) {
	if err := checkCommand(command); err != nil {
		return Exit{}, fault.Wrap(err, "run", "")
	}
	if command.ID == "" {
		command.ID = client.NewID()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stream := c.rpc.Exec(ctx)
	defer stream.CloseResponse()
	err := stream.Send(&supervisorv1.ExecRequest{Start: startOf(command, secrets, in != nil)})
	if in == nil || err != nil {
		stream.CloseRequest()
	} else {
		go feed(stream, in, stop)
		// Once there is an answer, HTTP/2 does not see the end of ctx while it waits for more of the request: so that ends with it.
		defer context.AfterFunc(ctx, func() { stream.CloseRequest() })()
	}
	for {
		m, err := stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Exit{}, fault.Wrap(fromWire(ctx, err), "run", command.Argv[0])
		}
		if m.Pid != 0 && command.Started != nil {
			command.Started(int(m.Pid))
		}
		if err := errors.Join(write(out, m.Stdout), write(errs, m.Stderr)); err != nil {
			stop(err)
			return Exit{}, err
		}
		if e := m.Exit; e != nil {
			return Exit{Sequence: int(m.Sequence), Exit: exitOf(e), HistoryError: fault.Printable(m.HistoryError)}, nil
		}
	}
}

func exitOf(e *supervisorv1.ExecExit) client.Exit {
	return client.Exit{
		Code: int(e.Code), Signal: int(e.Signal), TimedOut: e.TimedOut, StartFailure: e.NotRun != "", Message: fault.Printable(e.NotRun),
		Duration: time.Duration(e.DurationNs), OutputHeld: e.OutputHeld, OutOfMemory: e.OutOfMemory,
	}
}

// SecretEnv has a secret of the workspace be in an environment variable of a command.
type SecretEnv struct{ Secret, Env string }

// checkCommand refuses what can't be told to a supervisor.
func checkCommand(c client.Command) error {
	if len(c.Argv) == 0 {
		return fault.Newf(fault.Invalid, "there is no command")
	}
	for _, text := range slices.Concat(c.Argv, c.Env, []string{c.Cwd, c.User}) {
		if !utf8.ValidString(text) {
			return fault.Newf(fault.Invalid, "%q is not UTF-8", text)
		}
	}
	return nil
}

func startOf(c client.Command, secrets []SecretEnv, stdin bool) *supervisorv1.ExecStart {
	s := &supervisorv1.ExecStart{
		ExecId: c.ID, Argv: c.Argv, Env: c.Env, Cwd: c.Cwd, User: c.User, Stdin: stdin, TimeoutMs: c.Timeout.Milliseconds(),
	}
	if t := c.TTY; t != nil {
		s.Tty, s.Term = &supervisorv1.Size{Cols: uint32(t.Cols), Rows: uint32(t.Rows)}, t.Term
	}
	for _, one := range secrets {
		s.SecretEnv = append(s.SecretEnv, &supervisorv1.SecretEnv{Secret: one.Secret, Env: one.Env})
	}
	return s
}

// feed passes the input on to its end. One that can't be read ends the command.
func feed(stream *connect.BidiStreamForClient[supervisorv1.ExecRequest, supervisorv1.ExecResponse], in io.Reader, stop context.CancelCauseFunc) {
	buffer := make([]byte, inputChunk)
	for {
		n, err := in.Read(buffer)
		if err != nil && err != io.EOF {
			stop(fault.Wrap(err, "read the input", ""))
			return
		}
		if sent := stream.Send(&supervisorv1.ExecRequest{Input: buffer[:n], InputEnd: err == io.EOF}); sent != nil || err == io.EOF {
			return
		}
	}
}

func write(to io.Writer, b []byte) error {
	if len(b) == 0 || to == nil {
		return nil
	}
	if _, err := to.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errWriter, err)
	}
	return nil
}

// Signal sends a signal to the process group of a command that runs.
func (c *Client) Signal(ctx context.Context, exec string, sig syscall.Signal) error {
	_, err := c.rpc.Signal(ctx, connect.NewRequest(&supervisorv1.SignalRequest{ExecId: exec, Signal: uint32(sig)}))
	return fromWire(ctx, err)
}

// Resize sets the size of the terminal of a command that runs.
func (c *Client) Resize(ctx context.Context, exec string, cols, rows int) error {
	_, err := c.rpc.Resize(ctx, connect.NewRequest(&supervisorv1.ResizeRequest{ExecId: exec, Size: &supervisorv1.Size{Cols: uint32(cols), Rows: uint32(rows)}}))
	return fromWire(ctx, err)
}
