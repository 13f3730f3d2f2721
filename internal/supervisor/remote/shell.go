package remote

import (
	"context"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
)

// Shell is a program on a terminal of its own, or in the background, as it is now.
type Shell struct {
	ID, Cwd     string
	Tag         string   // by which whoever started it finds it again
	PID         int      // in the machine
	Argv        []string // in lists
	Cols, Rows  int      // 0: it is a program in the background
	OpenedAt    time.Time
	EndedAt     time.Time    // zero: it runs
	Exit        *client.Exit // nil: it runs, or its end was not seen
	Broken      string       // why that was not seen
	OutputBytes int64
	TakenBytes  int64 // of it, see ShellRead.Taken
}

// InBackground tells whether it has no terminal.
func (s *Shell) InBackground() bool { return s.Cols == 0 }

func shellOf(m *supervisorv1.Shell) Shell {
	s := Shell{
		ID: fault.Printable(m.GetShellId()), Tag: m.GetTag(), PID: int(m.GetPid()), Argv: m.GetArgv(), TakenBytes: m.GetTakenBytes(), Cwd: m.GetCwd(), Cols: int(m.GetSize().GetCols()), Rows: int(m.GetSize().GetRows()),
		OpenedAt: time.Unix(0, m.GetOpenedUnixNanos()).UTC(), Broken: m.GetBroken(), OutputBytes: m.GetOutputBytes(),
	}
	if ended := m.GetEndedUnixNanos(); ended != 0 {
		s.EndedAt = time.Unix(0, ended).UTC()
	}
	if e := m.GetExit(); e != nil {
		exit := exitOf(e)
		s.Exit = &exit
	}
	return s
}

// OpenShell starts a program on a terminal, and returns when it runs.
func (c *Client) OpenShell(ctx context.Context, command client.Command, secrets ...SecretEnv) (Shell, error) {
	if command.TTY == nil {
		return Shell{}, fault.New(fault.Invalid, "open shell", "", "there is no terminal")
	}
	return c.OpenTagged(ctx, "", command, secrets...)
}

// OpenPrompting starts a shell that prints a prompt when it is ready: until then, for 10 seconds at most, what is typed into it and signals wait.
func (c *Client) OpenPrompting(ctx context.Context, command client.Command, secrets ...SecretEnv) (Shell, error) {
	return c.openShell(ctx, &supervisorv1.OpenShellRequest{Prompts: true}, command, secrets)
}

// OpenTagged starts a program on a terminal, or where the command has none in the background, and returns when it runs. Exists: one that runs has the tag.
func (c *Client) OpenTagged(ctx context.Context, tag string, command client.Command, secrets ...SecretEnv) (Shell, error) {
	return c.openShell(ctx, &supervisorv1.OpenShellRequest{Tag: tag}, command, secrets)
}

func (c *Client) openShell(ctx context.Context, req *supervisorv1.OpenShellRequest, command client.Command, secrets []SecretEnv) (Shell, error) {
	if err := checkCommand(command); err != nil {
		return Shell{}, fault.Wrap(err, "open shell", "")
	}
	req.Start = startOf(command, secrets, false)
	r, err := c.rpc.OpenShell(ctx, connect.NewRequest(req))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// Shells gives those on terminals that were not closed, the oldest first.
func (c *Client) Shells(ctx context.Context) ([]Shell, error) {
	all, err := c.Tagged(ctx, "")
	return slices.DeleteFunc(all, func(s Shell) bool { return s.InBackground() }), err
}

// Tagged gives what has a tag; with none all, on terminals and in the background, the oldest first.
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

// ShellRead says what to read of a shell.
type ShellRead struct {
	ID     string
	Cursor int64
	Chars  int           // at most
	Idle   time.Duration // wait until nothing was printed for so long; 0: don't
	Wait   time.Duration // wait for so long at most until something was printed; 0: don't
	Screen bool          // Before is wanted
	Plain  bool          // Plain is wanted instead of Data
	Raw    bool          // Chars are bytes, and no character is waited for to be whole
	Errors bool          // of a program in the background: its standard error
	Taken  int64         // what is before this offset has got to whom it is for
}

// ShellOutput is what was read.
type ShellOutput struct {
	Shell
	Data    []byte
	From    int64 // the offset of Data
	Next    int64 // the cursor to go on with
	Dropped int64 // bytes before From that are gone
	More    bool
	Before  []byte // what was printed since the alternate screen was shown, where it is at From
	Plain   []byte // what a person sees of it
}

// ReadShell reads what a shell has printed.
func (c *Client) ReadShell(ctx context.Context, read ShellRead) (ShellOutput, error) {
	r, err := c.rpc.ReadShell(ctx, connect.NewRequest(&supervisorv1.ReadShellRequest{
		ShellId: read.ID, Cursor: read.Cursor, MaxChars: int32(read.Chars), IdleMs: int32(read.Idle.Milliseconds()), WaitMs: int32(read.Wait.Milliseconds()),
		Screen: read.Screen, Plain: read.Plain, Raw: read.Raw, Errors: read.Errors, Taken: read.Taken,
	}))
	if err != nil {
		return ShellOutput{}, fromWire(ctx, err)
	}
	m := r.Msg
	return ShellOutput{shellOf(m.Shell), m.Data, m.From, m.Next, m.Dropped, m.More, m.Before, m.Plain}, nil
}

// WriteShell types into a shell.
func (c *Client) WriteShell(ctx context.Context, id string, typed []byte) (Shell, error) {
	r, err := c.rpc.WriteShell(ctx, connect.NewRequest(&supervisorv1.WriteShellRequest{ShellId: id, Data: typed}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// SignalShell sends a signal to the foreground group of a shell's terminal.
func (c *Client) SignalShell(ctx context.Context, id string, sig syscall.Signal) (Shell, error) {
	r, err := c.rpc.SignalShell(ctx, connect.NewRequest(&supervisorv1.SignalShellRequest{ShellId: id, Signal: uint32(sig)}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// KillShell kills all that a shell has started, and returns when its program has ended. It is no error where it has before.
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
		ShellId: id, Size: &supervisorv1.Size{Cols: uint32(cols), Rows: uint32(rows)},
	}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}

// CloseShell ends a shell and forgets it. It gives what it was at its end.
func (c *Client) CloseShell(ctx context.Context, id string) (Shell, error) {
	r, err := c.rpc.CloseShell(ctx, connect.NewRequest(&supervisorv1.CloseShellRequest{ShellId: id}))
	if err != nil {
		return Shell{}, fromWire(ctx, err)
	}
	return shellOf(r.Msg.Shell), nil
}
