package remote

import (
	"context"
	"syscall"
	"time"

	"connectrpc.com/connect"

	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// StartCommand starts a command in the background and adds it to the history. It returns the
// command's number in the history when the command runs. The command has no input.
func (c *Client) StartCommand(ctx context.Context, command program.Command) (sequence int, err error) {
	s, err := c.openShell(ctx, &supervisorv1.OpenShellRequest{Record: true}, command, false)
	return s.Sequence, err
}

// CommandRead describes a request to read the output of a command.
type CommandRead struct {
	Stdout, Stderr int64         // the cursors.
	Chars          int           // the largest number of characters to return of each stream.
	Raw            bool          // Chars counts bytes, and characters can be split.
	Wait           time.Duration // the longest time to wait for output or the end; 0: do not wait.
	UntilEnd       bool          // wait only for the end.
}

// CommandOutput is output of a command.
type CommandOutput struct {
	Stdout, Stderr program.Piece
	Attached       bool          // the output goes only to the client that runs the command.
	EndedAt        time.Time     // zero if it still runs.
	Exit           *program.Exit // nil if it still runs or its end was not seen.
	Broken         string        // why its end was not seen.
}

// ReadCommand reads the output of a command. The error has kind NotFound if the supervisor does not
// have the command.
func (c *Client) ReadCommand(ctx context.Context, sequence int, read CommandRead) (CommandOutput, error) {
	r, err := c.rpc.ReadCommand(ctx, connect.NewRequest(&supervisorv1.ReadCommandRequest{
		Sequence: int64(sequence), StdoutCursor: read.Stdout, StderrCursor: read.Stderr, MaxChars: int32(read.Chars), Raw: read.Raw,
		WaitMs: int32(min(read.Wait, time.Hour).Milliseconds()), UntilEnd: read.UntilEnd,
	}))
	if err != nil {
		return CommandOutput{}, fromWire(ctx, err)
	}
	m := r.Msg
	out := CommandOutput{Stdout: pieceOf(m.Stdout), Stderr: pieceOf(m.Stderr), Attached: m.Stdout == nil, Broken: m.Broken}
	if m.EndedUnixNanos != 0 {
		out.EndedAt = time.Unix(0, m.EndedUnixNanos).UTC()
	}
	if m.Exit != nil {
		exit, err := program.DecodeExit(m.Exit)
		if err != nil {
			return out, err
		}
		out.Exit = &exit
	}
	return out, nil
}

func pieceOf(m *supervisorv1.OutputPiece) program.Piece {
	return program.Piece{Data: m.GetData(), From: m.GetFrom(), Next: m.GetNext(), Dropped: m.GetDropped(), More: m.GetMore()}
}

// SignalCommand sends a signal to the process group of the command with a number in the history.
// SIGKILL also kills the command's descendants; SignalCommand then returns when the command has
// ended. The error has kind NotFound if the command does not run.
func (c *Client) SignalCommand(ctx context.Context, sequence int, sig syscall.Signal) error {
	_, err := c.rpc.Signal(ctx, connect.NewRequest(&supervisorv1.SignalRequest{Sequence: int64(sequence), Signal: uint32(sig), Tree: sig == syscall.SIGKILL}))
	return fromWire(ctx, err)
}
