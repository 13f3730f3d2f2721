package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Exit is the outcome of a command and its entry in the history.
type Exit struct {
	program.Exit
	Sequence int // its number in the history, or 0 if it is not in the history

	HistoryError     string     // why the command or its end is missing in the history
	HistoryErrorKind fault.Kind // kind of HistoryError; can be empty

	RefusedCount int               // number of targets that the network policy refused while the command ran
	Refused      []network.Refusal // the first of them
}

// inputChunk is the largest size of the input in one message, in bytes.
const inputChunk = 64 << 10

var errWriter = errors.New("the output can't be written")

// Exec runs a command until it ends, and adds it to the workspace's history. If ctx is cancelled or
// this process dies, the supervisor kills the command and its descendants.
func (c *Client) Exec(ctx context.Context, command program.Command, to program.Attach) (Exit, error) {
	if err := command.Check(); err != nil {
		return Exit{}, fault.Wrap(err, "run", "")
	}
	if command.ID == "" {
		command.ID = program.NewID()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stream := c.rpc.Exec(ctx)
	defer stream.CloseResponse()
	err := stream.Send(&supervisorv1.ExecRequest{Start: command.Encode(to.Stdin != nil)})
	if to.Stdin == nil || err != nil {
		stream.CloseRequest()
	} else {
		go sendInput(stream, to.Stdin, stop)
		// After the supervisor has answered, the HTTP/2 client waits for more of the request and
		// does not notice that ctx is cancelled. So this call closes the request when ctx is
		// cancelled.
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
		if m.Pid != 0 && to.Started != nil {
			to.Started(program.NewProcess(c, command.ID, int(m.Pid)))
		}
		if err := errors.Join(write(to.Stdout, m.Stdout), write(to.Stderr, m.Stderr)); err != nil {
			stop(err)
			return Exit{}, err
		}
		if m.Exit != nil {
			exit, err := program.DecodeExit(m.Exit)
			ended := Exit{Sequence: int(m.Sequence), Exit: exit, HistoryError: fault.Printable(m.HistoryError), HistoryErrorKind: fault.Kind(m.HistoryErrorKind)}
			ended.RefusedCount = int(m.RefusedCount)
			for _, r := range m.Refused {
				ended.Refused = append(ended.Refused, network.Refusal{Target: fault.Printable(r.Target), Reason: fault.Printable(r.Reason)})
			}
			return ended, err
		}
	}
}

// sendInput sends the whole input of a command. If the input can't be read, it stops the command.
func sendInput(stream *connect.BidiStreamForClient[supervisorv1.ExecRequest, supervisorv1.ExecResponse], in io.Reader, stop context.CancelCauseFunc) {
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

// Signal sends a signal to the process group of a running command. If the command has a terminal,
// the signal goes to the foreground group of the terminal. The error has kind NotFound if the
// command has ended.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.rpc.Signal(ctx, connect.NewRequest(&supervisorv1.SignalRequest{ExecId: id, Signal: uint32(sig)}))
	return fromWire(ctx, err)
}

// Resize sets the size of the terminal of a running command. The error has kind NotFound if the
// command has ended.
func (c *Client) Resize(ctx context.Context, id string, cols, rows int) error {
	_, err := c.rpc.Resize(ctx, connect.NewRequest(&supervisorv1.ResizeRequest{
		ExecId: id, Size: &programv1.Size{Cols: uint32(cols), Rows: uint32(rows)},
	}))
	return fromWire(ctx, err)
}
