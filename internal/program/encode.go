package program

import (
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
)

// Encode returns the protobuf form of a command. stdin is true if the command reads input.
func (c *Command) Encode(stdin bool) *programv1.Command {
	m := &programv1.Command{
		ExecId: c.ID, Argv: c.Argv, Env: c.Env, Cwd: c.Cwd, User: c.User, Stdin: stdin,
		TimeoutMs: int64((c.Timeout + time.Millisecond - 1) / time.Millisecond),
	}
	if t := c.TTY; t != nil {
		m.Tty, m.Term = &programv1.Size{Cols: uint32(t.Cols), Rows: uint32(t.Rows)}, t.Term
	}
	for _, s := range c.Secrets {
		m.SecretEnv = append(m.SecretEnv, &programv1.SecretEnv{Secret: s.Secret, Env: s.Env})
	}
	return m
}

// Decode returns the command in a protobuf message. It does not check the command.
func Decode(m *programv1.Command) Command {
	c := Command{
		ID: m.GetExecId(), Argv: m.GetArgv(), Env: m.GetEnv(), Cwd: m.GetCwd(), User: m.GetUser(),
		Timeout: time.Duration(m.GetTimeoutMs()) * time.Millisecond,
	}
	if size := m.GetTty(); size != nil {
		c.TTY = &Terminal{Cols: int(size.Cols), Rows: int(size.Rows), Term: m.Term}
	}
	for _, s := range m.GetSecretEnv() {
		c.Secrets = append(c.Secrets, SecretEnv{Secret: s.Secret, Env: s.Env})
	}
	return c
}

// Encode returns the protobuf form of an exit.
func (e *Exit) Encode() *programv1.Exit {
	return &programv1.Exit{
		Code: int32(e.Code), Signal: int32(e.Signal), TimedOut: e.TimedOut, NotRun: e.NotRun,
		OutOfMemory: e.OutOfMemory, OutputHeld: e.OutputHeld, DurationNs: int64(e.Duration),
	}
}

// maxReason is the maximum length of NotRun, in bytes.
const maxReason = 1024

// DecodeExit returns the exit in a protobuf message. The message can come from a hostile guest. The
// error has kind Corrupt if a number is out of range. NotRun is made printable.
func DecodeExit(m *programv1.Exit) (Exit, error) {
	if m.Code < 0 || m.Code > 255 || m.Signal < 0 || m.Signal > 64 || m.DurationNs < 0 {
		return Exit{}, fault.Newf(fault.Corrupt, "an exit code of %d by signal %d after %d ns", m.Code, m.Signal, m.DurationNs)
	}
	reason := fault.Printable(m.NotRun[:min(len(m.NotRun), maxReason)])
	return Exit{
		Code: int(m.Code), Signal: int(m.Signal), TimedOut: m.TimedOut, NotRun: reason,
		OutOfMemory: m.OutOfMemory, OutputHeld: m.OutputHeld, Duration: time.Duration(m.DurationNs),
	}, nil
}
