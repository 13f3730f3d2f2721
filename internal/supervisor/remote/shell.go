package remote

import (
	"context"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Shell describes a program on a terminal or in the background.
type Shell struct {
	ID, Cwd     string
	Tag         string   // chosen by the client that started it
	PID         int      // the process ID in the machine
	Argv        []string // set only in lists
	Cols, Rows  int      // 0 if it runs in the background
	OpenedAt    time.Time
	EndedAt     time.Time     // zero if it still runs
	Exit        *program.Exit // nil if it still runs or its end was not seen
	Broken      string        // why its end was not seen
	OutputBytes int64
	AckedBytes  int64 // the bytes of output that its client has acknowledged, see ShellRead.Acked
	Sequence    int   // its number in the history, or 0 if the history does not contain it
}

// InBackground reports whether s runs in the background, without a terminal.
func (s *Shell) InBackground() bool { return s.Cols == 0 }

func shellOf(m *supervisorv1.Shell) Shell {
	s := Shell{
		ID: fault.Printable(m.GetShellId()), Tag: m.GetTag(), PID: int(m.GetPid()), Argv: m.GetArgv(), AckedBytes: m.GetTakenBytes(), Cwd: m.GetCwd(), Cols: int(m.GetSize().GetCols()), Rows: int(m.GetSize().GetRows()),
		OpenedAt: time.Unix(0, m.GetOpenedUnixNanos()).UTC(), Broken: m.GetBroken(), OutputBytes: m.GetOutputBytes(), Sequence: int(m.GetSequence()),
	}
	if ended := m.GetEndedUnixNanos(); ended != 0 {
		s.EndedAt = time.Unix(0, ended).UTC()
	}
	if e := m.GetExit(); e != nil {
		exit, err := program.DecodeExit(e)
		if err != nil {
			s.Broken = err.Error()
			return s
		}
		s.Exit = &exit
	}
	return s
}

// OpenShell starts a program on a terminal. It returns when the program runs.
func (c *Client) OpenShell(ctx context.Context, command program.Command) (Shell, error) {
	if command.TTY == nil {
		return Shell{}, fault.New(fault.Invalid, "open shell", "", "there is no terminal")
	}
	return c.OpenTagged(ctx, "", command, true)
}

// OpenPrompting is OpenShell for a program that prints a prompt when it is ready. The supervisor
// delays input and signals until then.
func (c *Client) OpenPrompting(ctx context.Context, command program.Command) (Shell, error) {
	return c.openShell(ctx, &supervisorv1.OpenShellRequest{Prompts: true}, command, true)
}

// OpenTagged starts a program with a tag. It returns when the program runs. If the command has no
// terminal, the program runs in the background. In that case input says whether the program accepts
// WriteShell. The error has kind Exists if a running program has the tag.
func (c *Client) OpenTagged(ctx context.Context, tag string, command program.Command, input bool) (Shell, error) {
	return c.openShell(ctx, &supervisorv1.OpenShellRequest{Tag: tag}, command, input)
}

func (c *Client) openShell(ctx context.Context, req *supervisorv1.OpenShellRequest, command program.Command, input bool) (Shell, error) {
	if err := command.Check(); err != nil {
		op := "open shell"
		if command.TTY == nil {
			op = "start command"
		}
		return Shell{}, fault.Wrap(err, op, "")
	}
	req.Start = command.Encode(input)
	r, err := c.rpc.OpenShell(ctx, connect.NewRequest(req))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// Shells returns the shells on terminals, oldest first, except closed ones.
func (c *Client) Shells(ctx context.Context) ([]Shell, error) {
	all, err := c.Tagged(ctx, "")
	return slices.DeleteFunc(all, func(s Shell) bool { return s.InBackground() }), err
}

// Tagged returns the shells and background programs with a tag, oldest first. If tag is empty, it
// returns all of them.
func (c *Client) Tagged(ctx context.Context, tag string) ([]Shell, error) {
	r, err := c.rpc.ListShells(ctx, connect.NewRequest(&supervisorv1.ListShellsRequest{Tag: tag}))
	if err != nil {
		return nil, fromWire(ctx, err)
	}
	var all []Shell
	for _, m := range r.Msg.Shells {
		all = append(all, shellOf(m))
	}
	return all, nil
}

// ShellRead describes a request to read output.
type ShellRead struct {
	ID     string
	Cursor int64
	Chars  int           // the largest number of characters to return
	Idle   time.Duration // wait until the shell has printed nothing for this time; 0: do not wait
	Wait   time.Duration // the longest time to wait for output; 0: do not wait
	Screen bool          // return ShellOutput.Before
	Plain  bool          // return ShellOutput.Plain instead of Data.
	Raw    bool          // Chars counts bytes, and characters can be split
	Errors bool          // read the standard error of a background program
	Acked  int64         // the client has received all output before this offset
}

// ShellOutput is output of a shell.
type ShellOutput struct {
	Shell
	Data    []byte
	From    int64 // the offset of Data
	Next    int64 // the cursor for the next read
	Dropped int64 // lost bytes between the requested cursor and From
	More    bool
	Before  []byte // if the alternate screen is active at From, the output since it was entered
	Plain   []byte // Data as a person sees it
}

// ReadShell reads the output of a shell.
func (c *Client) ReadShell(ctx context.Context, read ShellRead) (ShellOutput, error) {
	r, err := c.rpc.ReadShell(ctx, connect.NewRequest(&supervisorv1.ReadShellRequest{
		ShellId: read.ID, Cursor: read.Cursor, MaxChars: int32(read.Chars), IdleMs: int32(read.Idle.Milliseconds()), WaitMs: int32(read.Wait.Milliseconds()),
		Screen: read.Screen, Plain: read.Plain, Raw: read.Raw, Errors: read.Errors, Taken: read.Acked,
	}))
	if err != nil {
		return ShellOutput{}, fromWire(ctx, err)
	}
	m := r.Msg
	return ShellOutput{shellOf(m.Shell), m.Data, m.From, m.Next, m.Dropped, m.More, m.Before, m.Plain}, nil
}

// WriteShell sends input to a shell. It refuses a line that is too long for the terminal.
func (c *Client) WriteShell(ctx context.Context, id string, typed []byte) (Shell, error) {
	r, err := c.writeShell(ctx, &supervisorv1.WriteShellRequest{ShellId: id, Data: typed})
	return shellOf(r.Shell), err
}

// TypeShell is WriteShell for input from a person or for checked input. The terminal cuts off lines
// that are too long.
func (c *Client) TypeShell(ctx context.Context, id string, typed []byte) error {
	if len(typed) == 0 {
		return nil
	}
	_, err := c.writeShell(ctx, &supervisorv1.WriteShellRequest{ShellId: id, Data: typed, Anyway: true})
	return err
}

// LineLimit returns the longest line that the terminal of a shell accepts now, in bytes without the
// line break. It returns 0 if there is no limit.
func (c *Client) LineLimit(ctx context.Context, id string) (int, error) {
	r, err := c.writeShell(ctx, &supervisorv1.WriteShellRequest{ShellId: id})
	return int(r.LineLimit), err
}

func (c *Client) writeShell(ctx context.Context, req *supervisorv1.WriteShellRequest) (*supervisorv1.WriteShellResponse, error) {
	r, err := c.rpc.WriteShell(ctx, connect.NewRequest(req))
	if err != nil {
		return &supervisorv1.WriteShellResponse{}, fromWire(ctx, err)
	}
	return r.Msg, nil
}

// SignalShell sends a signal to the foreground group of a shell's terminal.
func (c *Client) SignalShell(ctx context.Context, id string, sig syscall.Signal) (Shell, error) {
	r, err := c.rpc.SignalShell(ctx, connect.NewRequest(&supervisorv1.SignalShellRequest{ShellId: id, Signal: uint32(sig)}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// KillShell kills a shell's program and its descendants, and returns when the program has ended. It
// does nothing if the program has already ended.
func (c *Client) KillShell(ctx context.Context, id string) (Shell, error) {
	r, err := c.rpc.SignalShell(ctx, connect.NewRequest(&supervisorv1.SignalShellRequest{ShellId: id, Signal: uint32(syscall.SIGKILL), Tree: true}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// ResizeShell sets the size of a shell's terminal.
func (c *Client) ResizeShell(ctx context.Context, id string, cols, rows int) (Shell, error) {
	r, err := c.rpc.ResizeShell(ctx, connect.NewRequest(&supervisorv1.ResizeShellRequest{
		ShellId: id, Size: &programv1.Size{Cols: uint32(cols), Rows: uint32(rows)},
	}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// CloseShell ends a shell and deletes it with its output. It returns the shell's last state.
func (c *Client) CloseShell(ctx context.Context, id string) (Shell, error) {
	r, err := c.rpc.CloseShell(ctx, connect.NewRequest(&supervisorv1.CloseShellRequest{ShellId: id}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}
