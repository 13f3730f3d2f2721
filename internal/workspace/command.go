package workspace

import (
	"context"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// CommandState is the state of a command of the history.
type CommandState string

// The states of commands.
const (
	CommandRunning     CommandState = "running"
	CommandPaused      CommandState = "paused" // it continues when its workspace is resumed.
	CommandExited      CommandState = "exited"
	CommandInterrupted CommandState = "interrupted" // its end was not seen, because its machine or its client ended first.
)

// Command is a command of the history.
type Command struct {
	store.Command
	State CommandState
}

// HasEnded reports whether the command neither runs nor is paused.
func (c *Command) HasEnded() bool { return c.State == CommandExited || c.State == CommandInterrupted }

// commandNow returns a command with its state, which depends on the record and on the state of the
// workspace.
func commandNow(c store.Command, of State) Command {
	now := Command{Command: c, State: CommandExited}
	switch {
	case c.EndedAt.IsZero() && of == Paused:
		now.State = CommandPaused
	case c.EndedAt.IsZero() && of == Started:
		now.State = CommandRunning
	case c.EndedAt.IsZero():
		now.State, now.Result.Broken = CommandInterrupted, store.MachineEnded
	case c.Result.Broken != "":
		now.State = CommandInterrupted
	}
	return now
}

// StartCommand starts a command in the background, and returns when it runs. The command has no
// input. It runs until it ends or its machine ends, and counts as use of the workspace. A paused
// workspace is resumed.
func (m *Manager) StartCommand(ctx context.Context, id string, c program.Command) (Command, error) {
	connection, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Command{}, err
	}
	defer connection.Close()
	if c, err = inWorkspace(w.Spec, c); err != nil {
		return Command{}, err
	}
	sequence, err := connection.StartCommand(ctx, c)
	if err != nil {
		return Command{}, err
	}
	started, err := m.Store.Command(ctx, id, sequence)
	return commandNow(started, Started), err
}

// Command returns a command of the history by its number.
func (m *Manager) Command(ctx context.Context, id string, sequence int) (Command, error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return Command{}, err
	}
	state, err := m.machineState(ctx, id) // read before the record, because the end of a command is recorded before the end of its machine
	if err != nil {
		return Command{}, err
	}
	c, err := m.Store.Command(ctx, id, sequence)
	return commandNow(c, state), err
}

// ReadCommand reads the output of a command. If the command has not ended, a paused workspace is
// resumed, and the read counts as use. Of a command that its machine no longer has, the history
// keeps only the first and the last part of the output.
func (m *Manager) ReadCommand(ctx context.Context, id string, sequence int, read CommandRead) (Command, CommandOutput, error) {
	c, err := m.Command(ctx, id, sequence)
	if err != nil {
		return c, CommandOutput{}, err
	}
	out, err := m.readRunning(ctx, c, id, read)
	switch {
	case fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Precondition:
		c, err = m.recordedEnd(ctx, id, c, fault.KindOf(err) == fault.Precondition)
		return c, storedOutput(c, read), err
	case err != nil:
		return c, out, err
	case out.EndedAt.IsZero():
		if c.State = CommandRunning; out.Attached {
			out.Stdout.Next, out.Stderr.Next = read.Stdout, read.Stderr
		}
		return c, out, nil
	}
	if !c.HasEnded() {
		if c, err = m.Command(ctx, id, sequence); err != nil {
			return c, out, err
		}
	}
	if !c.HasEnded() { // the history could not be written
		c.EndedAt, c.State = out.EndedAt, CommandInterrupted
		if c.Result.Broken = out.Broken; out.Exit != nil {
			c.Result.Exit, c.State = *out.Exit, CommandExited
		}
	}
	if out.Attached {
		out = storedOutput(c, read)
	}
	return c, out, nil
}

// recordedEnd returns a command that its supervisor does not have, as the history contains it. If
// the machine is being stopped, it waits for the end of the machine. If the workspace was paused
// before that, the error has kind Unavailable.
func (m *Manager) recordedEnd(ctx context.Context, id string, c Command, stopping bool) (Command, error) {
	if stopping && !c.HasEnded() {
		if err := m.folder(id).AwaitEnd(ctx); err != nil {
			return c, err
		}
	}
	c, err := m.Command(ctx, id, c.Sequence)
	switch {
	case err != nil || c.HasEnded():
	case c.State == CommandPaused:
		err = fault.New(fault.Unavailable, "read command", id, "the workspace was paused").WithHint("try again: the next operation resumes it")
	default:
		c.State, c.Result.Broken = CommandInterrupted, "its end could not be recorded"
	}
	return c, err
}

// readRunning reads the output that the supervisor has. It resumes the workspace only if the
// command was paused before. So a pause ends followers, and they do not resume the workspace.
func (m *Manager) readRunning(ctx context.Context, c Command, id string, read CommandRead) (CommandOutput, error) {
	var connection *client
	var err error
	switch c.State {
	case CommandPaused:
		connection, _, err = m.connect(ctx, store.KindWorkspace, id)
	case CommandRunning:
		connection, err = remote.Dial(ctx, m.folder(id))
	default:
		connection, err = remote.Watch(ctx, m.folder(id))
	}
	if err != nil {
		return CommandOutput{}, err
	}
	defer connection.Close()
	return connection.ReadCommand(ctx, c.Sequence, read)
}

// storedOutput returns the output that the history contains.
func storedOutput(c Command, read CommandRead) CommandOutput {
	return CommandOutput{
		Stdout: program.ReadKept(c.Stdout, c.Result.StdoutBytes, read.Stdout, read.Chars),
		Stderr: program.ReadKept(c.Stderr, c.Result.StderrBytes, read.Stderr, read.Chars), EndedAt: c.EndedAt,
	}
}

// waitStep is the longest time of one call to the supervisor.
const waitStep = time.Minute

// AwaitCommand waits until a command has ended or ctx is cancelled. It resumes a paused workspace.
// If the workspace is paused before that, it returns an error of kind Unavailable.
func (m *Manager) AwaitCommand(ctx context.Context, id string, sequence int) (Command, error) {
	for {
		c, _, err := m.ReadCommand(ctx, id, sequence, CommandRead{Chars: 1, Wait: waitStep, UntilEnd: true})
		if err != nil || c.HasEnded() {
			return c, err
		}
	}
}

// followChunk is the number of bytes of each stream in one read.
const followChunk = 64 << 10

// FollowCommand calls the function each with the output of a command until the command has ended.
// It returns earlier if the workspace is paused or its machine ends. It resumes a paused workspace.
func (m *Manager) FollowCommand(ctx context.Context, id string, sequence int, each func(CommandOutput) error) (Command, error) {
	read := CommandRead{Chars: followChunk, Raw: true, Wait: waitStep}
	for {
		c, out, err := m.ReadCommand(ctx, id, sequence, read)
		if fault.KindOf(err) == fault.Unavailable {
			return m.pausedOrLost(ctx, id, sequence, err)
		}
		if err != nil {
			return c, err
		}
		if len(out.Stdout.Data)+len(out.Stderr.Data) > 0 || out.Stdout.Dropped+out.Stderr.Dropped > 0 {
			if err := each(out); err != nil {
				return c, err
			}
		}
		if c.HasEnded() && !out.Stdout.More && !out.Stderr.More {
			return c, nil
		}
		read.Stdout, read.Stderr = out.Stdout.Next, out.Stderr.Next
	}
}

// pausedOrLost returns a command if its workspace is paused or its machine has ended. Otherwise it
// returns the error of the supervisor, which can be about to pause or to end.
func (m *Manager) pausedOrLost(ctx context.Context, id string, sequence int, err error) (Command, error) {
	patient, cancel := context.WithTimeout(ctx, silentPatience)
	defer cancel()
	if m.folder(id).AwaitEnd(patient) != nil {
		return Command{}, err
	}
	now, failed := m.Command(ctx, id, sequence)
	if failed != nil || now.State == CommandRunning {
		return now, err
	}
	return now, nil
}

// SignalCommand sends a signal to a command that runs. SIGKILL also kills all processes that the
// command started; SignalCommand then returns when the command has ended. It resumes a paused
// workspace. It does nothing if the command has ended.
func (m *Manager) SignalCommand(ctx context.Context, id string, sequence int, sig syscall.Signal) (Command, error) {
	c, err := m.Command(ctx, id, sequence)
	if err != nil || c.HasEnded() {
		return c, err
	}
	connection, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err == nil {
		defer connection.Close()
		err = connection.SignalCommand(ctx, sequence, sig)
	}
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return c, err
	}
	now, failed := m.Command(ctx, id, sequence)
	if failed == nil && err != nil && !now.HasEnded() {
		failed = err
	}
	return now, failed
}
